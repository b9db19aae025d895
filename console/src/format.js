// Numbers and times for people.
import { useEffect, useState } from "preact/hooks";

export const number = new Intl.NumberFormat("en-US").format;
export const counted = (count, one, many = `${one}s`) => `${number(count)} ${count === 1 ? one : many}`;
export const share = (part, whole) => `${((100 * part) / Math.max(whole, 1)).toFixed(1)} %`;
export const micros = (us) => (us >= 1000 ? `${(us / 1000).toFixed(1)} ms` : `${us.toFixed(us < 10 ? 1 : 0)} µs`);

const two = (value) => String(value).padStart(2, "0");

export function clock(ms) {
  const at = new Date(ms);
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

export function day(ms) {
  const at = new Date(ms);
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
}

export const exact = (ms) => `${day(ms)} ${clock(ms)}.${String(ms % 1000).padStart(3, "0")} (${new Date(ms).toISOString()})`;

export function ago(ms, now = Date.now()) {
  const seconds = Math.round((now - ms) / 1000);
  if (seconds < 2) return "now";
  if (seconds < 60) return `${seconds} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ago`;
  return `${counted(Math.floor(seconds / 86400), "day")} ago`;
}

export function useNow(every = 5000) {
  const [now, set] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => set(Date.now()), every);
    return () => clearInterval(timer);
  }, []);
  return now;
}

// A name without the form in which the token has it, which is in the hint.
export const plainName = (user) => user.replace(/ \([^()]*\)(\??)$/, "$1");

export const text = (value) => (typeof value === "string" ? value : JSON.stringify(value, null, 2));
