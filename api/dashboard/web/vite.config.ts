import { defineConfig } from "vite";

// Relative URLs, so that the pages work below any prefix; no inlined assets and no
// module preload script, so that the policy needs no exception.
export default defineConfig({
  base: "./",
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    outDir: "../dist",
    emptyOutDir: true,
    assetsInlineLimit: 0,
    modulePreload: false,
    target: "es2022",
    sourcemap: false,
  },
  worker: { format: "es" },
  test: { environment: "node", include: ["src/**/*.test.ts"] },
} as Parameters<typeof defineConfig>[0]);
