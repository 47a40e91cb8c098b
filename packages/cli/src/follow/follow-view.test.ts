import type { ReplyInfo } from '@parlance/protocol';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createPaper } from '../base/testing/paper.js';
import { widthOf } from '../base/text-layout.js';
import { createFollowView } from './follow-view.js';

const NOW = new Date(2026, 10, 22, 14, 20, 0);
const ID = `reply_${'aB3'.repeat(7)}z`;
const reply = (fields: Partial<ReplyInfo> = {}): ReplyInfo => ({
  id: ID,
  name: 'chat-42',
  isOwn: true,
  state: 'complete',
  parts: 1_234,
  startedAt: NOW.getTime() - 65_000,
  expiresAt: NOW.getTime() + 535_000,
  ...fields,
});

function viewOn(columns?: number, quiet = false) {
  const [output, errors] = [createPaper(columns), createPaper(columns)];
  const view = createFollowView(output.terminal, errors.terminal, { quiet, now: () => NOW });
  return { view, output, errors };
}

describe('a followed reply', () => {
  it('goes to a pipe as it is, with one line end, and apart from the notes', () => {
    const { view, output, errors } = viewOn();
    view.connecting('ws://host/session');
    view.following(ID, 0);
    for (const part of ['Grüße ', '', '\u001b[31m世界\n', '\n', 'end']) view.part(part);
    view.waiting(6);
    view.part('!');
    view.complete(6);
    view.end();
    expect(output.text()).toBe('Grüße \u001b[31m世界\n\nend!\n');
    expect(errors.lines()).toEqual([
      'parlance ws://host/session',
      `following ${ID} from its beginning`,
      '● waiting for part 6; Ctrl-C leaves, and the reply continues',
      'the reply is complete: 6 parts',
    ]);
  });

  it('is all that is printed with --quiet', () => {
    const { view, output, errors } = viewOn(undefined, true);
    view.connecting('ws://host/session');
    view.following(ID, 4);
    view.part('text\n');
    view.waiting(6);
    view.state('suspended');
    view.complete(1);
    view.end();
    expect([output.text(), errors.text()]).toEqual(['text\n', '']);
  });

  it('cannot move the cursor of a terminal', () => {
    const { view, output } = viewOn(80);
    view.part('a\u001b[2Jb\rc\n');
    view.end();
    expect(output.text()).toBe('a\\u001b[2Jb\\rc\n');
  });

  it('fits terminals of any width, in parts of any size', () => {
    const parts = fc.array(fc.string({ unit: fc.constantFrom('a', ' ', '\n', '世', 'ü') }), {
      maxLength: 20,
    });
    fc.assert(
      fc.property(parts, fc.integer({ min: 2, max: 90 }), (texts, columns) => {
        const { view, output } = viewOn(columns);
        for (const text of texts) view.part(text);
        view.end();
        for (const line of output.lines()) expect(widthOf(line)).toBeLessThanOrEqual(columns);
        // Only spaces at the breaks are lost.
        const words = (text: string) => text.replace(/\s/g, '');
        expect(words(output.text())).toBe(words(texts.join('')));
      }),
    );
  });

  it('continues on a line of its own after a note on the same terminal', () => {
    const { view, output } = viewOn(80);
    view.part('The sky');
    view.waiting(2);
    view.part(' is blue');
    view.end();
    expect(output.text()).toBe('The sky\n is blue\n');
  });
});

describe('the list of replies', () => {
  const REPLIES = [
    reply({ state: 'running', expiresAt: undefined, parts: 1 }),
    reply({ name: undefined, isOwn: false }),
    reply({ name: 'a name that is too long for a terminal with few columns 世界', state: 'failed' }),
    reply({ name: 'evil\u001b[2J', startedAt: NOW.getTime() - 86_400_000 }),
  ];

  it('is a table on a terminal of 80 columns', () => {
    const { view, output } = viewOn(80);
    view.list([reply(), ...REPLIES]);
    expect(output.lines().slice(0, 4)).toEqual([
      'reply                         state     parts  started      kept until  name',
      `${ID}  complete  1,234  14:18:55     14:28:55    chat-42`,
      `${ID}  running   1      14:18:55     its end     chat-42`,
      `${ID}  complete  1,234  14:18:55     14:28:55    (shared)`,
    ]);
    expect(output.lines()[5]).toContain('11-21 14:20');
  });

  it('fits terminals of any width', () => {
    for (const columns of [20, 30, 40, 60, 79, 80, 100, 200]) {
      const { view, output } = viewOn(columns);
      view.list(REPLIES);
      const tooLong = output.lines().filter((line) => widthOf(line) > columns);
      expect(tooLong, `${columns} columns`).toEqual([]);
      expect(output.text()).not.toContain('\u001b');
    }
  });

  it('names whole IDs on a narrow terminal', () => {
    const { view, output } = viewOn(40);
    view.list([reply()]);
    expect(output.lines()).toEqual([
      ID,
      '  chat-42',
      '  complete, 1,234 parts',
      '  started 14:18:55',
      '  kept until 14:28:55',
    ]);
  });

  it('has whole names and timestamps in a pipe', () => {
    const { view, output } = viewOn();
    view.list(REPLIES);
    expect(output.text()).toContain('few columns 世界');
    expect(output.text()).toContain(new Date(REPLIES[0]?.startedAt as number).toISOString());
  });

  it('that is empty is said', () => {
    const { view, output, errors } = viewOn();
    view.list([]);
    expect([output.text(), errors.text()]).toEqual(['', 'the server keeps no reply that you may follow\n']);
  });
});
