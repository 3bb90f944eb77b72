// A window of 50 000 live buffers of mixed sizes moves over 300 000; two workers and the pool behind zlib allocate too.
const crypto = require('crypto');
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

if (!isMainThread) {
  parentPort.postMessage(churn(100000));
} else {
  const worker = () => new Promise((resolve, reject) =>
    new Worker(__filename).on('message', resolve).on('error', reject));
  const packed = i => new Promise((resolve, reject) =>
    zlib.gzip(Buffer.alloc(500000, 'page ' + i), (error, bytes) => error ? reject(error) : resolve(bytes.length)));
  Promise.all([worker(), worker(), ...Array.from({ length: 40 }, (_, i) => packed(i))])
    .then(results => { console.log(churn(300000)); console.log(results.join('\n')); });
}
