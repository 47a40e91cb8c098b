import { encodeControl } from '@parlance/protocol';
import { createSessionExplainer, type Direction, explainFrame } from '@parlance/protocol/inspect';
import { describe, expect, it } from 'vitest';
import { fromHex } from '../../../protocol/src/base/testing/bytes.js';
import { createPaper } from '../base/testing/paper.js';
import { widthOf } from '../base/text-layout.js';
import { createScreen } from './screen.js';
import { createTrafficView } from './traffic.js';

const clock = () => new Date(2026, 0, 2, 3, 4, 5, 6);
const chunk = (text: string, streamId = 1) => Uint8Array.of(0x13, streamId, 0, ...Buffer.from(text));

function show(
  frames: readonly (readonly [Direction, Uint8Array])[],
  columns?: number,
  everyFrame = false,
): string {
  const paper = createPaper(columns);
  const view = createTrafficView(createScreen(paper.terminal), { everyFrame, clock });
  const explainer = createSessionExplainer({ preview: 60 });
  for (const [direction, frame] of frames) view.frame(direction, explainer.explain(direction, frame));
  view.flush();
  return paper.text();
}

describe('the traffic', () => {
  const reply = [
    ['sent', fromHex('1101006869')],
    ['received', chunk('Hel')],
    ['received', chunk('lo')],
    ['received', chunk(', you')],
    ['received', fromHex('1401')],
    ['received', fromHex('1820')],
  ] as const;

  it('has one line per frame, and one for consecutive parts', () => {
    expect(show(reply).split('\n')).toEqual([
      '03:04:05.006  → request #1         5 B  “hi”, PLAIN: 2 bytes',
      '03:04:05.006  ← chunk #1 ×3       19 B  “Hello, you” in 3 parts',
      '03:04:05.006  ← end #1             2 B  the reply is complete',
      '03:04:05.006  ← ack                2 B  32 frames received so far',
      '',
    ]);
  });

  it('has a line for every part on request', () => {
    const text = show(reply, undefined, true);
    expect(text.match(/chunk #1 /g)).toHaveLength(3);
    expect(text).toContain('“, you”, PLAIN: 5 bytes');
  });

  it('separates the parts of different replies', () => {
    const text = show([
      ['received', chunk('a')],
      ['received', chunk('b', 3)],
      ['received', chunk('c')],
    ]);
    expect(text.match(/^.*chunk.*$/gm)).toHaveLength(3);
  });

  it('updates the line of an unfinished reply on a terminal', () => {
    const text = show(reply, 100);
    const clear = '\r\u001b[2K';
    expect(text.split(clear)).toHaveLength(4);
    expect(text.split(clear).at(-1)).toMatch(/^03:04:05\.006 {2}← chunk #1 ×3 .*“Hello, you” in 3 parts\n/);
  });

  it('shows the fault of a frame', () => {
    expect(show([['received', fromHex('1101')]])).toMatch(/← request #1 +2 B {2}truncated at byte 2: /);
  });

  it('fits terminals of any width', () => {
    const close = encodeControl({
      type: 'CLOSE',
      sessionId: 'sess_1',
      timestamp: 1,
      payload: { reason: 'ERROR', message: 'a long explanation 世界 '.repeat(30) },
    });
    expect(explainFrame(close).error).toBeUndefined();
    for (const columns of [40, 75, 76, 120]) {
      const text = show([['received', close], ...reply], columns);
      const lines = text.replaceAll('\r\u001b[2K', '\n').split('\n');
      expect(lines.filter((line) => widthOf(line) > columns)).toEqual([]);
    }
  });
});
