import { createCuttingProxy } from '../../../e2e/src/kit/cutting-proxy.js';
import { atMost, compare, type Row } from '../row.js';
import { system } from './session-end.js';

const MIB = 2 ** 20;
const CUTS = 8;
/** `sessionWindow`, which bounds the bytes in flight. */
const WINDOW = 4 * MIB;

/** A large tensor whose connection is lost now and then: how much of it is sent twice. */
export async function* measureCuts(size: number): AsyncGenerator<Row> {
  const server = await system.serve(() => {});
  await using proxy = await createCuttingProxy(server.port);
  const end = await system.connect(proxy.port);
  const before = end.sentBytes ?? 0;
  const sent = end.send(size);
  let cuts = 0;
  const timer = setInterval(() => {
    if (cuts === CUTS || proxy.bytes.fromClient < ((cuts + 1) * size) / (CUTS + 1)) return;
    cuts++;
    proxy.cut();
  }, 1);
  await sent;
  clearInterval(timer);
  const again = ((end.sentBytes ?? 0) - before - size) / Math.max(1, cuts);
  await end.close();
  await server.close();
  yield compare(
    `${size / MIB} MiB tensor cut ${cuts} times, sent again per cut`,
    'MiB',
    'lower',
    again / MIB,
    { name: 'session window', value: WINDOW / MIB },
    atMost(1),
  );
}
