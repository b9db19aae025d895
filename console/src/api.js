// Questions to the server. What was answered last stays when the next answer fails: it is stale then.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";

const API = "/console/api";

export async function ask(path, options = {}) {
  let response;
  try {
    response = await fetch(`${API}/${path}`, options);
  } catch {
    throw new Error("the server does not answer");
  }
  const type = response.headers.get("content-type") || "";
  const document = type.startsWith("application/json") ? await response.json() : { error: (await response.text()).trim() };
  if (response.status === 401) window.dispatchEvent(new Event("doorward-login"));
  if (!response.ok) throw Object.assign(new Error(typeof document.error === "string" ? document.error : document.message || `the server answers ${response.status}`), { status: response.status });
  return document;
}

export const send = (path, body) =>
  ask(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });

// {data, error, status, at, isLoading, reload}; asked again every so many milliseconds while the page is visible.
export function useAsked(path, every = 0) {
  const [state, set] = useState({ data: null, error: "", at: 0, isLoading: true });
  const current = useRef(path);
  current.current = path;
  const reload = useCallback(async () => {
    if (!path) return;
    try {
      const data = await ask(path);
      if (current.current === path) set({ data, error: "", status: 200, at: Date.now(), isLoading: false });
    } catch (error) {
      if (current.current === path) set((old) => ({ ...old, error: error.message, status: error.status, isLoading: false }));
    }
  }, [path]);
  useEffect(() => {
    set((old) => ({ ...old, isLoading: true }));
    reload();
  }, [path]);
  // Another pace asks nothing at once.
  useEffect(() => {
    if (!every) return undefined;
    const timer = setInterval(() => document.hidden || reload(), every);
    return () => clearInterval(timer);
  }, [path, every]);
  return { ...state, reload };
}
