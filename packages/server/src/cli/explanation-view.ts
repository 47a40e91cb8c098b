import { type Explanation, printable } from '@parlance/protocol/inspect';
import { fieldLines } from './field-table.js';
import type { Terminal } from './terminal.js';
import { wrap } from './text-layout.js';

/** An explanation for people: what it is, each of its pieces, and whether it is right. */

export interface ViewOptions {
  /** Show the bytes beside the fields. */
  readonly hex: boolean;
  /** Something that has to be said about how the frame was read. */
  readonly notes?: readonly string[] | undefined;
}

/** What each kind of frame is, for somebody who sees one for the first time. */
const KINDS: Readonly<Record<Explanation['kind'], readonly [name: string, meaning: string]>> = {
  control: ['control message', 'It opens, keeps or ends a session.'],
  link: ['link frame', 'It carries one step of a conversation inside a session.'],
  'token-native': [
    'TokenNative',
    'Text as numbers, each of which stands for a piece of text in a vocabulary that both ends have.',
  ],
  m2m: ['M2M v1 frame', 'A JSON message behind a header that a router can read without unpacking it.'],
  avp: ['AVP frame', 'A tensor, such as the hidden states of a model, behind what describes it.'],
  'text-form': ['coded text', 'Text that says by its prefix how it is coded.'],
  content: ['plain text', 'Text that begins with no prefix is the content itself.'],
  unknown: ['unknown', 'No frame begins like this.'],
};

export function showExplanation(terminal: Terminal, explanation: Explanation, options: ViewOptions): void {
  const { label, kind, form, sizes, summary, preview, error } = explanation;
  const { style } = terminal;
  const width = Math.min(terminal.columns, MAX_WIDTH);
  const write = (line = '') => terminal.write(`${line}\n`);
  const paragraph = (text: string, each: (line: string) => string = (line) => line) => {
    for (const line of wrap(printable(text), width - 2)) write(`  ${each(line)}`);
  };

  const [name, meaning] = KINDS[kind];
  const title =
    kind === 'link' || kind === 'control'
      ? `${name}: ${label}`
      : form === 'text' && kind !== 'content'
        ? label
        : name;
  const size = `${sizes.frame.toLocaleString('en-US')} byte${sizes.frame === 1 ? '' : 's'}`;
  const [heading, extent] = [printable(title), `${size}, ${form}`];
  const isShort = heading.length + extent.length + 2 <= width;
  write(`${style('strong', heading)}${isShort ? '  ' : '\n'}${style('faint', extent)}`);
  paragraph(meaning, (line) => style('faint', line));
  write();
  if (error === undefined) {
    paragraph(summary);
    write();
  }
  const lines = fieldLines(terminal, explanation, width, options.hex);
  for (const line of lines) write(line);
  if (lines.length > 0) write();
  if (preview !== undefined && needsRoom(preview, summary)) showContent(terminal, preview, width);
  showVerdict(terminal, explanation, options, width);
}

/** Lines wider than this are hard to read. */
const MAX_WIDTH = 140;

/** Whether the summary shows less of it. */
function needsRoom(preview: string, summary: string): boolean {
  return !summary.includes(`“${printable(preview)}”`);
}

/** Lines of content that are shown. */
const MAX_CONTENT_LINES = 12;

function showContent(terminal: Terminal, preview: string, width: number): void {
  terminal.write(`  ${terminal.style('faint', 'content')}\n`);
  const lines = preview.split('\n').flatMap((line) => wrap(printable(line), width - 4));
  for (const line of lines.slice(0, MAX_CONTENT_LINES)) terminal.write(`    ${line}\n`);
  if (lines.length > MAX_CONTENT_LINES) terminal.write('    …\n');
  terminal.write('\n');
}

function showVerdict(
  terminal: Terminal,
  { error, warnings, missing, protection }: Explanation,
  { notes = [] }: ViewOptions,
  width: number,
): void {
  const { style } = terminal;
  const say = (mark: string, kind: 'good' | 'bad' | 'notice', text: string) => {
    const [first, ...more] = wrap(printable(text), width - 4);
    terminal.write(`  ${style(kind, mark)} ${first}\n`);
    for (const line of more) terminal.write(`    ${line}\n`);
  };
  for (const note of notes) say('!', 'notice', note);
  for (const name of missing) say('!', 'notice', `${name} is not installed, so what it codes stays as it is`);
  for (const { code, message, offset } of warnings)
    say('!', 'notice', `${code} at byte ${offset}: ${message}`);
  if (error === undefined && protection !== undefined) {
    say(
      '✓',
      'good',
      `nothing is wrong with what can be read; whether it is authentic takes the key (${protection})`,
    );
  } else if (error === undefined) say('✓', 'good', 'nothing is wrong with this frame');
  else say('✗', 'bad', `${error.code} at byte ${error.offset}: ${error.message}`);
}
