import { expect, it } from 'vitest';
import { createPaper } from '../base/testing/paper.js';
import { createTextView } from './connect-view.js';

function viewOn(quiet: boolean) {
  const [output, errors] = [createPaper(80), createPaper(80)];
  const view = createTextView(output.terminal, errors.terminal, { quiet, everyFrame: false });
  return { view, output };
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

it('shows it once and whole behind the lines of frames, if these are shown', () => {
  const { view, output } = viewOn(false);
  view.part('The sky');
  expect(output.text()).toBe('');
  view.reply('The sky', 1, 10);
  expect(output.text()).toContain('The sky');
});
