import { BodyCodec, plainBody } from '../../packages/protocol/src/codec/body.js';
import { linkParameters } from '../../packages/protocol/src/control/agreement.js';
import { BODY_CHARGE } from '../../packages/protocol/src/link/credit.js';
import { decodeLinkFrame, LinkFlag, LinkKind } from '../../packages/protocol/src/link/frame.js';
import { createSimulation, TEST_CAPABILITIES } from '../../packages/protocol/src/testing/simulation.js';
import { code, digits, table } from './markdown.js';

const LENGTH = 40_000;
const WINDOW = 16_384;

/** The frames of a request that is larger than its window, and what they leave of the credit. */
export function creditTable(): string {
  const rows: string[][] = [];
  let offset = 0;
  let limit = WINDOW;
  const link = JSON.stringify({ stream_window: WINDOW, message_window: WINDOW, max_streams: 128 });
  const capabilities = { ...TEST_CAPABILITIES, extensions: { link } };
  const simulation = createSimulation({
    client: { capabilities },
    server: { capabilities },
    tamper(frame, from) {
      if (frame[0] !== undefined && frame[0] >= 0x10 && frame[0] <= 0x1f)
        note(frame, from === simulation.client);
      return frame;
    },
  });
  function note(frame: Uint8Array, isClient: boolean): void {
    const { kind, flags, rest } = decodeLinkFrame(frame);
    if (kind === LinkKind.CREDIT) {
      let value = 0;
      for (const [at, each] of rest.entries()) value += (each & 0x7f) * 128 ** at;
      limit = value;
      const effect = isClient ? '' : shown(limit);
      rows.push([side(isClient), code(digits(frame)), 'credit', '', shown(offset), effect]);
    } else if (kind === LinkKind.REQUEST) {
      const charge = rest.length + (offset === 0 ? BODY_CHARGE : 0);
      const fields = offset === 0 ? ` = ${shown(rest.length)} + ${BODY_CHARGE}` : '';
      offset += charge;
      const more = flags & LinkFlag.MORE ? ', MORE' : ', the last';
      rows.push([
        side(isClient),
        `${code(digits(frame.subarray(0, 6)))} …`,
        `request${more}`,
        `${shown(charge)}${fields}`,
        shown(offset),
        shown(limit),
      ]);
    }
  }
  simulation.settle();
  const body = plainBody(new Uint8Array(LENGTH));
  if (body.codec !== BodyCodec.PLAIN || linkParameters({ link }).streamWindow !== WINDOW)
    throw new Error('another window');
  simulation.client.core.channel.request(body);
  simulation.settle();
  if (offset < LENGTH + BODY_CHARGE) throw new Error(`the request is stuck at ${offset}`);
  return table(['from', 'frame', 'what', 'charge', 'offset', 'limit'], rows);
}

const side = (isClient: boolean): string => (isClient ? 'client' : 'server');
const shown = (value: number): string => value.toLocaleString('en-US');
