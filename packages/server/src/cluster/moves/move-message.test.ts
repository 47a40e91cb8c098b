import { ProtocolError } from '@parlance/protocol';
import { describe, expect, it } from 'vitest';
import { decodeMoveMessage, encodeMoveMessage, type MoveMessage, refusalMessage } from './move-message.js';

const session = 'sess_aaaaaabbbbbbbbbbbbbb';
const MESSAGES: readonly MoveMessage[] = [
  { type: 'hold', session },
  { type: 'held', bytes: 12 },
  { type: 'snapshot', session, size: 400, sent: 7, epoch: 2 },
  { type: 'taken' },
  { type: 'taken', more: true },
  { type: 'refused', code: 'draining', message: 'later' },
];

describe('a message about a move', () => {
  it.each(MESSAGES)('is read as it was written: $type', (message) => {
    expect(decodeMoveMessage(encodeMoveMessage(message))).toEqual(message);
  });

  it.each<[string, unknown]>([
    ['bytes', new Uint8Array([1])],
    ['not JSON', '{'],
    ['a list', '[]'],
    ['null', 'null'],
    ['without a type', '{}'],
    ['of an unknown type', '{"type":"give"}'],
    ['with a type of a prototype', '{"type":"constructor"}'],
    ['without a session', '{"type":"hold"}'],
    ['with a session of no cluster', '{"type":"hold","session":"sess_1"}'],
    ['with a session that is a key of others', '{"type":"hold","session":"agents"}'],
    ['with a negative count', '{"type":"held","bytes":-1}'],
    ['with a fraction', '{"type":"held","bytes":1.5}'],
    ['with half a snapshot', `{"type":"snapshot","session":"${session}","size":1}`],
    ['with a long code', JSON.stringify({ type: 'refused', code: 'x'.repeat(257), message: '' })],
    ['that is long', JSON.stringify({ type: 'taken', more: 'x'.repeat(5_000) })],
  ])('is refused: %s', (_what, data) => {
    expect(() => decodeMoveMessage(data as string)).toThrow(expect.objectContaining({ code: 'bad_message' }));
  });

  it('says why a session is refused, and quotes nothing of a fault', () => {
    const refused = refusalMessage(new ProtocolError('over_budget', 'y'.repeat(300)));
    expect(refused).toEqual({ type: 'refused', code: 'over_budget', message: 'y'.repeat(256) });
    expect(decodeMoveMessage(encodeMoveMessage(refused))).toEqual(refused);
    expect(refusalMessage(new TypeError('secret'))).toMatchObject({
      code: 'internal',
      message: 'the node failed',
    });
  });
});
