// A map of entries with strings of objects, a quarter of the operations removing, and a ring of 64 trees beside it: what
// survives a young collection, and what does not, is what the size of the semi-spaces decides. Usage: churn OPERATIONS KEYS
'use strict';

const [operations, keys] = process.argv.slice(2).map(Number);
let state = 2463534242;
const draw = (bound) => {
  state ^= state << 13;
  state ^= state >>> 17;
  state ^= state << 5;
  return (state >>> 0) % bound;
};
const grow = (depth) => (depth === 0 ? null : { left: grow(depth - 1), right: grow(depth - 1) });
const weight = (tree) => (tree === null ? 0 : 1 + weight(tree.left) + weight(tree.right));

const store = new Map();
const ring = new Array(64).fill(null);
let sum = 0;
for (let i = 0; i < operations; i++) {
  const key = draw(keys);
  if (draw(4) === 0) store.delete(key);
  else store.set(key, new Array(2 + draw(draw(20) === 0 ? 500 : 35)).fill(i));
  if (i % 256 === 0) {
    const place = (i / 256) % 64;
    sum += weight(ring[place]);
    ring[place] = grow(8 + draw(6));
  }
}
let total = 0;
for (const value of store.values()) total += value.length;
console.log(store.size, total, sum);
