// The playground's unsaved work, kept by the tab until it closes: a reload or another view loses nothing.
const NAME = "doorward-playground";

export function readDraft() {
  try {
    const draft = JSON.parse(sessionStorage.getItem(NAME));
    return draft && Object.keys(draft.files).length ? draft : null;
  } catch {
    return null;
  }
}

export function writeDraft(draft) {
  try {
    sessionStorage.setItem(NAME, JSON.stringify(draft));
  } catch {
    // Larger than the browser keeps: the page itself still has it.
  }
}

export const dropDraft = () => sessionStorage.removeItem(NAME);
