// A window of 50 000 live buffers of mixed sizes moves over 300 000; two workers and the pool behind zlib allocate too.
// With the argument "rounds", does one round for each line of the input and answers each with one line.
const crypto = require('crypto');
const readline = require('readline');
const zlib = require('zlib');
const { Worker, isMainThread, parentPort } = require('worker_threads');

function churn(rounds) {
  const digest = crypto.createHash('sha256');
  const window = new Map();
  for (let i = 0; i < rounds; i++) {
    window.set(i, Buffer.alloc(100 + i % 900, i & 255));
    if (i >= 50000) {
      if (i % 1000 === 0) digest.update(window.get(i - 50000));
      window.delete(i - 50000);
    }
  }
  return window.size + ' ' + digest.digest('hex');
}

const worker = () => new Promise((resolve, reject) =>
  new Worker(__filename).on('message', resolve).on('error', reject));

const packed = text => new Promise((resolve, reject) =>
  zlib.gzip(Buffer.alloc(500000, text), (error, bytes) => error ? reject(error) : resolve(bytes.length)));

function play(turn, rounds) {
  const jobs = [worker(), worker(), ...Array.from({ length: 40 }, (_, i) => packed('page ' + (i + turn)))];
  return Promise.all(jobs).then(results => [churn(rounds), ...results].join(' '));
}

async function playRounds() {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    console.log(await play(Number(line), 100000));
    if (global.gc) global.gc();
  }
}

if (!isMainThread) {
  parentPort.postMessage(churn(100000));
} else if (process.argv[2] === 'rounds') {
  playRounds();
} else {
  play(0, 300000).then(line => console.log(line));
}
