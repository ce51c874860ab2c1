// Writes the hash of the sources into dist, by which a Go test tells whether dist was
// built from them: SHA-256 over "path\n", the length and the bytes of each file, sorted.
import { createHash } from "node:crypto";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join, relative, sep } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));

function files(folder) {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    if (entry.name === "node_modules") return [];
    const path = join(folder, entry.name);
    return entry.isDirectory() ? files(path) : [path];
  });
}

const hash = createHash("sha256");
const named = files(root).map((path) => [relative(root, path).split(sep).join("/"), path]);
named.sort(([a], [b]) => (a < b ? -1 : 1));
for (const [name, path] of named) {
  const content = readFileSync(path);
  hash.update(`${name}\n${content.length}\n`);
  hash.update(content);
}
writeFileSync(join(root, "../dist/.sources"), `${hash.digest("hex")}\n`);
