// Decisions as they are made, of all workers: one connection while a page is open.
import { useEffect, useRef, useState } from "preact/hooks";
import { ask } from "./api.js";

export const MOST = 100_000;
const PAGE = 500;
const FIRST = 200;
const OLD = 5000;

const keyOf = (row) => row.id;

// The live rows that a filter means, newest first; `more` asks for older ones.
export function useDecisions(filter) {
  const [state, set] = useState(null);
  const store = useRef(null);
  const query = new URLSearchParams(Object.entries(filter).filter(([, value]) => value)).toString();
  useEffect(() => {
    const mine = {
      rows: [], pending: [], seconds: [], isTop: true, isPaused: false, leftOut: 0, silent: [], workers: 1,
      status: "connecting", since: Date.now(), next: null, isLoading: false, hasAll: false, total: 0, error: "", known: new Set(),
    };
    store.current = mine;
    let isOver = false;
    const show = () => isOver || set({ ...mine });
    const older = async () => {
      if (mine.isLoading || mine.hasAll || mine.rows.length >= MOST) return;
      mine.isLoading = true;
      show();
      try {
        const before = mine.next ? `&before=${mine.next.join(".")}` : "";
        const limit = mine.next ? PAGE : FIRST;
        const page = await ask(`search?limit=${limit}${before}${query && `&${query}`}`);
        const rows = page.rows.filter((row) => !mine.known.has(keyOf(row)));
        for (const row of rows) mine.known.add(keyOf(row));
        mine.rows = mine.next ? [...mine.rows, ...rows] : [...mine.rows, ...rows].sort(newestFirst);
        mine.next = page.next;
        mine.hasAll = !page.next;
        mine.total = page.total;
        mine.error = "";
      } catch (error) {
        mine.error = error.message;
        mine.hasAll = true;
      }
      mine.isLoading = false;
      show();
    };
    mine.more = older;
    mine.flush = () => {
      mine.rows = [...mine.pending, ...mine.rows].slice(0, MOST);
      mine.pending = [];
      show();
    };
    mine.top = (isTop) => {
      mine.isTop = isTop;
      if (isTop && !mine.isPaused && mine.pending.length) mine.flush();
    };
    mine.pause = () => {
      mine.isPaused = !mine.isPaused;
      if (!mine.isPaused && mine.isTop) mine.flush();
      else show();
    };
    // A server that began again has what came since; what it had before is on this page alone.
    const lookForRestart = async () => {
      const state = await ask("state").catch(() => null);
      const started = Math.max(0, ...(state?.workers || []).map((each) => each.since_ms || 0));
      if (!started) return;
      if (mine.started && started > mine.started) {
        mine.restarted = started;
        mine.total = mine.rows.concat(mine.pending).filter((row) => row.time_ms >= started).length;
      }
      mine.started = started;
      show();
    };
    older();
    const source = new EventSource(`/console/api/decisions${query && `?${query}`}`);
    source.onmessage = ({ data }) => {
      const batch = JSON.parse(data);
      const rows = [...batch.decisions, ...batch.docker.map((each) => ({ ...each, worker: "docker" }))]
        .filter((row) => !mine.known.has(keyOf(row)))
        .sort(newestFirst);
      for (const row of rows) mine.known.add(keyOf(row));
      // The first message holds what the first page of the search holds as well.
      if (mine.status === "live") mine.leftOut += batch.skipped;
      else lookForRestart();
      Object.assign(mine, { status: "live", seconds: batch.seconds, silent: batch.silent, workers: batch.workers, since: Date.now() });
      if (rows.length) {
        mine.total += rows.length;
        mine.pending = [...rows, ...mine.pending].slice(0, OLD);
        if (mine.isTop && !mine.isPaused) {
          mine.rows = [...mine.pending, ...mine.rows].slice(0, MOST);
          mine.pending = [];
        }
      }
      show();
    };
    source.onerror = () => {
      // Every half minute the server ends a connection, and the browser makes the next one.
      if (mine.status === "live") mine.status = "reconnecting";
      show();
    };
    return () => {
      isOver = true;
      source.close();
    };
  }, [query]);
  return state;
}

const newestFirst = (a, b) => b.time_ms - a.time_ms || b.number - a.number;

// Counts of the last minute alone.
export function useSeconds() {
  const [state, set] = useState({ seconds: [], status: "connecting", silent: [] });
  useEffect(() => {
    const source = new EventSource("/console/api/decisions?limit=0");
    source.onmessage = ({ data }) => {
      const { seconds, silent } = JSON.parse(data);
      set({ seconds, silent, status: "live" });
    };
    source.onerror = () => set((old) => ({ ...old, status: "reconnecting" }));
    return () => source.close();
  }, []);
  return state;
}
