import { Subprotocol } from '@parlance/protocol';
import fc from 'fast-check';
import { beforeEach, describe, expect, it } from 'vitest';
import { type ClientOfTicket, digestOf, isProven, proveAddress, TICKET_TTL_MS, Tickets } from './ticket.js';

const SECRET = Buffer.from('a secret of 20 bytes');
const OTHER = Buffer.from('another secret......');

let time: number;
beforeEach(() => {
  time = 1_700_000_000_000;
});
const node = (incarnation: string, secrets: readonly Uint8Array[] = [SECRET], maxRemembered?: number) =>
  new Tickets({ secrets, incarnation, now: () => time, maxRemembered });

const CLIENT: ClientOfTicket = {
  sessionId: 'sess_ownerA00000000000000',
  helloDigest: digestOf('HELLO'),
  subprotocol: Subprotocol.BINARY,
  identity: { principal: 'alice', agentId: 'agent-1', expiresAt: 1_700_000_100_000 },
  ip: '203.0.113.7',
  headers: { origin: 'https://app.example', cookie: 'a=1; b="\u00e9"', 'set-cookie': ['x', 'y'] },
  isForwarded: true,
};

/** A ticket with another payload and the old signature. */
function forge(ticket: string, change: (content: unknown[]) => void): string {
  const [payload = '', signature = ''] = ticket.split('.');
  const content = JSON.parse(Buffer.from(payload, 'base64url').toString()) as unknown[];
  change(content);
  return `${Buffer.from(JSON.stringify(content)).toString('base64url')}.${signature}`;
}

describe('a ticket', () => {
  it('says at the node that it is for what the other node has found out', () => {
    const ticket = node('source').issue('ownerA', CLIENT);
    expect(node('ownerA').accept(ticket)).toEqual({ source: 'source', ...CLIENT });
  });

  it('keeps what a client does not have absent', () => {
    const client = { ...CLIENT, identity: { principal: 'bob' }, headers: {} };
    const accepted = node('ownerA').accept(node('source').issue('ownerA', client));
    expect(accepted).toEqual({ source: 'source', ...client });
  });

  it('is not accepted from a node with a long name, which would be remembered', () => {
    const owner = node('ownerA');
    expect(owner.acceptFor('link', node('x'.repeat(64)).issueFor('link', 'ownerA'))).toBeTypeOf('object');
    expect(owner.acceptFor('link', node('x'.repeat(65)).issueFor('link', 'ownerA'))).toBe('wrong');
    expect(owner.accept(node('x'.repeat(65)).issue('ownerA', CLIENT))).toBe('wrong');
  });

  it('is accepted once', () => {
    const owner = node('ownerA');
    const ticket = node('source').issue('ownerA', CLIENT);
    expect(owner.accept(ticket)).toBeTypeOf('object');
    expect(owner.accept(ticket)).toBe('replayed');
    time += TICKET_TTL_MS;
    expect(owner.accept(ticket)).toBe('replayed');
    time += 1;
    expect(owner.accept(ticket)).toBe('expired');
  });

  it('is not accepted a second time after it was forgotten, although its node is ahead of time', () => {
    const ahead = node('source');
    const owner = node('ownerA');
    time += TICKET_TTL_MS;
    const ticket = ahead.issue('ownerA', CLIENT);
    time -= TICKET_TTL_MS;
    expect(owner.accept(ticket)).toBeTypeOf('object');
    for (let elapsed = 0; elapsed <= 3 * TICKET_TTL_MS; elapsed += 1_000) {
      owner.sweep();
      expect(owner.accept(ticket)).toBeTypeOf('string');
      time += 1_000;
    }
    expect(owner.remembered).toBe(0);
  });

  it('is not accepted by another node, with the same secret', () => {
    const ticket = node('source').issue('ownerA', CLIENT);
    expect(node('ownerB').accept(ticket)).toBe('other_node');
  });

  it.each([-TICKET_TTL_MS, TICKET_TTL_MS])('is valid if the clocks differ by %d ms', (offset) => {
    const ticket = node('source').issue('ownerA', CLIENT);
    time += offset;
    expect(node('ownerA').accept(ticket)).toBeTypeOf('object');
  });

  it.each([-TICKET_TTL_MS - 1, TICKET_TTL_MS + 1])('is expired if they differ by %d ms', (offset) => {
    const ticket = node('source').issue('ownerA', CLIENT);
    time += offset;
    expect(node('ownerA').accept(ticket)).toBe('expired');
  });

  it('with another secret is wrong', () => {
    expect(node('ownerA').accept(node('source', [OTHER]).issue('ownerA', CLIENT))).toBe('wrong');
  });

  it('is verified with every secret and signed with the first one', () => {
    const fresh = node('source', [OTHER, SECRET]);
    expect(node('ownerA', [SECRET, OTHER]).accept(fresh.issue('ownerA', CLIENT))).toBeTypeOf('object');
    expect(node('ownerA', [SECRET]).accept(fresh.issue('ownerA', CLIENT))).toBe('wrong');
    const old = node('source', [SECRET]);
    expect(node('ownerA', [OTHER, SECRET]).accept(old.issue('ownerA', CLIENT))).toBeTypeOf('object');
  });

  it.each<[string, number, unknown]>([
    ['principal', 8, 'mallory'],
    ['agent ID', 9, 'agent-2'],
    ['expiry', 10, null],
    ['address', 11, '127.0.0.1'],
    ['session', 5, 'sess_ownerA00000000000001'],
    ['HELLO', 6, digestOf('another HELLO')],
    ['time', 3, 1_700_000_000_001],
    ['nonce', 4, 'another'],
    ['node', 1, 'ownerB'],
  ])('with another %s is wrong', (_what, index, value) => {
    const ticket = forge(node('source').issue('ownerA', CLIENT), (content) => {
      content[index] = value;
    });
    expect(node('ownerA').accept(ticket)).toBe('wrong');
    expect(node('ownerB').accept(ticket)).toBe('wrong');
  });

  it('cut off anywhere, or with any byte changed, is wrong', () => {
    const ticket = node('source').issue('ownerA', CLIENT);
    const owner = node('ownerA');
    const payloadEnd = ticket.indexOf('.');
    for (let length = 0; length < ticket.length; length++) {
      // The last character of base64 may hold unused bits only.
      if (length === ticket.length - 1) continue;
      expect(owner.accept(ticket.slice(0, length))).toBe('wrong');
    }
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: payloadEnd - 2 }),
        fc.constantFrom('A', 'z', '_', '.'),
        (at, to) => {
          fc.pre(ticket[at] !== to);
          expect(owner.accept(ticket.slice(0, at) + to + ticket.slice(at + 1))).toBe('wrong');
        },
      ),
    );
    expect(owner.accept(`${ticket}.x`)).toBe('wrong');
    expect(owner.remembered).toBe(0);
  });

  it('is wrong if it is anything else', () => {
    fc.assert(
      fc.property(fc.string(), (text) => {
        expect(node('ownerA').accept(text)).toBe('wrong');
      }),
    );
  });

  it('is not accepted while as many are remembered as can be, and is after some have expired', () => {
    const owner = node('ownerA', [SECRET], 3);
    const source = node('source');
    for (let i = 0; i < 3; i++) expect(owner.accept(source.issue('ownerA', CLIENT))).toBeTypeOf('object');
    expect(owner.accept(source.issue('ownerA', CLIENT))).toBe('full');
    expect(owner.remembered).toBe(3);
    time += TICKET_TTL_MS + 1;
    expect(owner.accept(source.issue('ownerA', CLIENT))).toBeTypeOf('object');
  });

  it('is no proof of an address, and the reverse', () => {
    const proof = proveAddress(SECRET, 'ownerA', 'ws://127.0.0.1:1');
    const payload = Buffer.from(JSON.stringify(['ownerA', 'ws://127.0.0.1:1'])).toString('base64url');
    expect(node('ownerA').accept(`${payload}.${proof}`)).toBe('wrong');
  });
});

describe('the proof of an address', () => {
  const proof = proveAddress(SECRET, 'ownerA', 'wss://10.0.0.7:7946');
  it('holds for this node at this address, with any of the secrets', () => {
    expect(isProven([OTHER, SECRET], 'ownerA', 'wss://10.0.0.7:7946', proof)).toBe(true);
  });
  it.each([
    [[OTHER], 'ownerA', 'wss://10.0.0.7:7946', proof],
    [[SECRET], 'ownerB', 'wss://10.0.0.7:7946', proof],
    [[SECRET], 'ownerA', 'wss://10.0.0.8:7946', proof],
    [[SECRET], 'ownerA', 'wss://10.0.0.7:7946', ''],
    [[SECRET], 'ownerA', 'wss://10.0.0.7:7946', proof.slice(0, -2)],
  ])('holds for nothing else', (secrets, incarnation, address, given) => {
    expect(isProven(secrets, incarnation, address, given)).toBe(false);
  });
});

describe('a ticket for a connection that relays', () => {
  it('says which node it is of, once and at one node', () => {
    const ticket = node('source').issueFor('link', 'ownerA');
    expect(node('ownerB').acceptFor('link', ticket)).toBe('other_node');
    const owner = node('ownerA');
    expect(owner.acceptFor('link', ticket)).toEqual({ source: 'source' });
    expect(owner.acceptFor('link', ticket)).toBe('replayed');
    time += TICKET_TTL_MS + 1;
    expect(owner.acceptFor('link', ticket)).toBe('expired');
  });

  it('is not one for a client, nor the reverse', () => {
    expect(node('ownerA').accept(node('source').issueFor('link', 'ownerA'))).toBe('wrong');
    expect(node('ownerA').acceptFor('link', node('source').issue('ownerA', CLIENT))).toBe('wrong');
  });

  it('is not one for a question between nodes, nor the reverse', () => {
    const ticket = node('source').issueFor('standing', 'ownerA');
    const owner = node('ownerA');
    expect(owner.acceptFor('link', ticket)).toBe('wrong');
    expect(owner.accept(ticket)).toBe('wrong');
    expect(owner.acceptFor('standing', node('source').issueFor('link', 'ownerA'))).toBe('wrong');
    expect(owner.acceptFor('standing', ticket)).toEqual({ source: 'source' });
    expect(owner.acceptFor('standing', ticket)).toBe('replayed');
  });

  it('is not accepted with another secret, or changed', () => {
    const ticket = node('source').issueFor('link', 'ownerA');
    expect(node('ownerA', [OTHER]).acceptFor('link', ticket)).toBe('wrong');
    expect(
      node('ownerA').acceptFor(
        'link',
        forge(ticket, (content) => content.splice(2, 1, 'liar00')),
      ),
    ).toBe('wrong');
    expect(node('ownerA').acceptFor('link', '')).toBe('wrong');
    expect(node('ownerA').acceptFor('link', `${ticket}.`)).toBe('wrong');
  });
});
