import { createSessionExplainer, SCHEMA_VERSION } from '@parlance/protocol/inspect';
import { expect, it } from 'vitest';
import { createPaper } from '../base/testing/paper.js';
import { createTextView } from './connect-view.js';

function viewOn(quiet: boolean, everyFrame = false) {
  const [output, errors] = [createPaper(80), createPaper(80)];
  const view = createTextView(output.terminal, errors.terminal, { quiet, everyFrame });
  return { view, output, errors };
}

it('shows an answer on a quiet terminal while it arrives, without its control characters', () => {
  const { view, output } = viewOn(true);
  view.part('The sky\n');
  expect(output.text()).toBe('The sky\n');
  view.part('is \u001b[31mblue');
  expect(output.text()).toContain('The sky\nis ');
  expect(output.text()).toContain('blue');
  expect(output.text()).not.toContain('\u001b[31m');
  view.reply('The sky\nis \u001b[31mblue', 2, 10);
  expect(output.text().match(/The sky/g)).toHaveLength(1);
  expect(output.text().endsWith('\n')).toBe(true);
});

it('shows it once while it arrives, and one line of figures in place of its frames', () => {
  const { view, output, errors } = viewOn(false);
  const explainer = createSessionExplainer({ preview: 60 });
  const frame = (bytes: Uint8Array) =>
    view.event({
      v: SCHEMA_VERSION,
      time: '2026-11-30T00:00:00.000Z',
      connection: 1,
      event: 'frame',
      direction: 'received',
      ...explainer.explain('received', bytes),
    });
  const chunk = (text: string) => Uint8Array.of(0x13, 1, 0, ...Buffer.from(text));
  frame(chunk('The sky'));
  view.part('The sky');
  expect(output.text()).toBe('The sky');
  frame(chunk(' is blue'));
  view.part(' is blue');
  // The end of the reply, and another frame behind it.
  frame(Uint8Array.of(0x14, 1));
  view.reply('The sky is blue', 2, 10);
  frame(Uint8Array.of(0x18, 0x20));
  expect(output.text()).toBe('The sky is blue\n');
  expect(errors.text()).toMatch(/^2 parts in 10 ms\n[^\n]*← ack [^\n]*\n$/);
});

it('shows it whole behind the lines of its frames, if all of these are asked for', () => {
  const { view, output } = viewOn(false, true);
  view.part('The sky');
  expect(output.text()).toBe('');
  view.reply('The sky', 1, 10);
  expect(output.text()).toContain('The sky');
});
