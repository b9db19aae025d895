// console/src -> src/doorward/console/static: two scripts, the second loaded with the playground.
import { rmSync } from "node:fs";
import * as esbuild from "esbuild";

const out = new URL("../src/doorward/console/static/", import.meta.url).pathname;
rmSync(out, { recursive: true, force: true });
await esbuild.build({
  entryPoints: ["src/console.js", "src/console.css"],
  outdir: out,
  bundle: true,
  splitting: true,
  format: "esm",
  target: "es2022",
  minify: true,
  chunkNames: "[name]-[hash]",
  logLevel: "warning",
});
