import { describe, expect, it } from 'vitest';
import { encodeUtf8 } from '../base/text.js';
import { plainBody } from '../codec/body.js';
import { Outbox } from '../link/outbox.js';
import { Closing, type ClosingEvent, ClosingState } from './closing.js';

const TABLE: readonly (readonly [
  ClosingState,
  Record<ClosingEvent, ClosingState>,
  Pick<Closing, 'hasSent' | 'hasReceived'>,
])[] = [
  [
    'open',
    { begin: 'begun', send: 'open', receive: 'asked', lose: 'open' },
    { hasSent: false, hasReceived: false },
  ],
  [
    'begun',
    { begin: 'begun', send: 'sent', receive: 'received', lose: 'begun' },
    { hasSent: false, hasReceived: false },
  ],
  [
    'sent',
    { begin: 'sent', send: 'sent', receive: 'exchanged', lose: 'begun' },
    { hasSent: true, hasReceived: false },
  ],
  [
    'received',
    { begin: 'received', send: 'exchanged', receive: 'received', lose: 'received' },
    { hasSent: false, hasReceived: true },
  ],
  [
    'exchanged',
    { begin: 'exchanged', send: 'exchanged', receive: 'exchanged', lose: 'received' },
    { hasSent: true, hasReceived: true },
  ],
  [
    'asked',
    { begin: 'asked', send: 'answered', receive: 'asked', lose: 'asked' },
    { hasSent: false, hasReceived: true },
  ],
  [
    'answered',
    { begin: 'answered', send: 'answered', receive: 'answered', lose: 'asked' },
    { hasSent: true, hasReceived: true },
  ],
];
const EVENTS = ['begin', 'send', 'receive', 'lose'] as const;
const BOTH = [false, true];

const closingIn = (state: ClosingState, hasBodies = false) => {
  const outbox = new Outbox();
  if (hasBodies) outbox.pushPlain('x', plainBody(encodeUtf8('x')));
  const closing = new Closing(outbox);
  closing.state = state;
  return closing;
};

describe('the closing handshake', () => {
  it('has no state that the table leaves out', () => {
    expect(TABLE.map(([state]) => state).sort()).toEqual(Object.values(ClosingState).sort());
  });

  it.each(TABLE)('in state %s', (state, next, { hasSent, hasReceived }) => {
    for (const event of EVENTS) {
      const closing = closingIn(state);
      closing.step(event);
      expect([event, closing.state]).toEqual([event, next[event]]);
    }
    const closing = closingIn(state);
    expect([closing.hasSent, closing.hasReceived]).toEqual([hasSent, hasReceived]);
  });

  it.each(TABLE)('in state %s, asks for what is due', (state, _next, { hasSent }) => {
    for (const hasBodies of BOTH) {
      for (const isAcknowledged of BOTH) {
        for (const canResume of BOTH) {
          const mayLeave = state === 'exchanged' || (state === 'answered' && !canResume);
          const expected = hasSent ? mayLeave && isAcknowledged && 'leave' : !hasBodies && 'send';
          const due = closingIn(state, hasBodies).due(isAcknowledged, canResume, 0, 1);
          expect(due ?? false).toBe(expected);
        }
      }
    }
  });

  it.each(TABLE)(
    'in state %s, is settled once the peer has closed and received everything',
    (state, _next, flags) => {
      for (const hasBodies of BOTH) {
        for (const isAcknowledged of BOTH) {
          const closing = closingIn(state, hasBodies);
          expect(closing.isSettled(isAcknowledged)).toBe(flags.hasReceived && isAcknowledged && !hasBodies);
        }
      }
    },
  );

  it('remembers who began, through any number of lost connections', () => {
    // The rules as three facts: CLOSE was sent on this connection, was received, and the peer asked first.
    const walk = (closing: Closing, facts: readonly boolean[], isClosing: boolean, depth: number) => {
      const [sent = false, received = false, asked = false] = facts;
      expect([closing.hasSent, closing.hasReceived]).toEqual([sent, received]);
      const leaves = closing.due(true, true, 0, 1) === 'leave';
      expect(leaves).toBe(sent && received && !asked);
      if (depth === 0) return;
      for (const event of EVENTS) {
        if (!isClosing && event === 'send') continue;
        const after = closingIn(closing.state);
        after.step(event);
        const next = {
          begin: facts,
          send: [true, received, asked],
          receive: [sent, true, asked || !isClosing],
          lose: [false, received, asked],
        }[event];
        walk(after, next, isClosing || event === 'begin' || event === 'receive', depth - 1);
      }
    };
    walk(closingIn('open'), [false, false, false], false, 6);
  });
});
