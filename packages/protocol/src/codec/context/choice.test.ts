import { beforeAll, expect, it } from 'vitest';
import { bytesOf } from '../../base/testing/bytes.js';
import { createProse } from '../../testing/prose.js';
import { platform } from '../../testing/this-platform.js';
import { ContextChooser } from './choice.js';
import { ContextEncoder } from './encoder.js';

beforeAll(() => platform.loadZstd());

/** The sending end of a session, beside a codec that needs `share` of every message. */
function createSender(share: number) {
  const encoder = new ContextEncoder({ maxBytes: 1024 * 1024, maxMessages: 8 });
  const chooser = new ContextChooser();
  return (
    text: string,
    options: { kind?: number; isPart?: boolean; isBinary?: boolean; rival?: number | undefined } = {},
  ) => {
    const content = bytesOf(text);
    let asked = false;
    const candidate = {
      content,
      streamId: 1,
      isPart: options.isPart ?? false,
      kind: options.kind ?? 0,
      isBinary: options.isBinary ?? false,
    };
    const choice = chooser.choose(encoder, candidate, () => {
      asked = true;
      return 'rival' in options ? options.rival : Math.ceil(content.length * share);
    });
    if (choice.offer !== undefined) {
      encoder.begin(1, choice.offer);
      encoder.complete(1);
    }
    const bytes = choice.offer?.bytes.length ?? Math.ceil(content.length * share);
    return { rule: choice.rule, asked, bytes, best: Math.min(bytes, Math.ceil(content.length * share)) };
  };
}

it('invests in a first message, and asks no other codec about the messages that follow it', () => {
  const send = createSender(0.4);
  const prose = createProse(1);
  const history = prose(200);
  expect(send(history)).toMatchObject({ rule: 'investment', asked: true });
  expect(send(`${history} ${prose(20)}`)).toMatchObject({ rule: 'context', asked: false });
});

it('spends less than two per cent on messages that do not resemble each other', () => {
  for (const [words, messages] of [
    [20, 1000],
    [120, 1000],
    [2500, 150],
  ] as const) {
    const send = createSender(0.4);
    const prose = createProse(words);
    let [sent, best] = [0, 0];
    for (let i = 0; i < messages; i++) {
      const message = send(prose(words));
      sent += message.bytes;
      best += message.best;
    }
    expect(sent / best, `${words} words`).toBeLessThan(1.02);
    expect(sent, `${words} words`).toBeGreaterThanOrEqual(best);
  }
});

it('notices a conversation that begins after hundreds of dissimilar messages', () => {
  const send = createSender(0.35);
  const prose = createProse(7);
  for (let i = 0; i < 300; i++) send(prose(300));
  const turns = [prose(300)];
  const rules = Array.from({ length: 6 }, () => {
    turns.push(prose(30));
    return send(turns.join('\n')).rule;
  });
  expect(rules.slice(2)).toEqual(['context', 'context', 'context', 'context']);
});

it('chooses context if no other codec is possible, or if it costs nothing', () => {
  const send = createSender(1);
  const prose = createProse(8);
  for (let i = 0; i < 20; i++) expect(send(prose(50)).rule).toBe('investment');
  for (let i = 0; i < 20; i++) expect(send(prose(50), { rival: undefined }).rule).toBe('investment');
});

it('rarely invests in binary content that resembles nothing, even if it compresses well', () => {
  const send = createSender(1);
  const prose = createProse(8);
  const rules = Array.from({ length: 100 }, () => send(prose(50), { isBinary: true }).rule);
  expect(rules.filter((rule) => rule === 'investment').length).toBeLessThan(60);
});

it('does not pay half as much again for a place in the list', () => {
  const send = createSender(0.1);
  expect(send(createProse(9)(100)).rule).toBe('other');
});

it('learns about each kind and size of message separately', () => {
  const send = createSender(0.4);
  const prose = createProse(10);
  for (let i = 0; i < 10; i++) send(prose(40), { kind: 1 });
  expect([send(prose(40), { kind: 1 }), send(prose(40), { kind: 1 })].map(({ rule }) => rule)).toContain(
    'other',
  );
  expect(send(prose(40), { kind: 2 }).rule).toBe('investment');
  expect(send(prose(400), { kind: 1 }).rule).toBe('investment');
});
