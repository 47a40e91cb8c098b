import { type Explanation, printable, recordedFields } from '@parlance/protocol/inspect';
import type { Terminal } from '../base/terminal.js';
import { wrap } from '../base/text-layout.js';
import { fieldLines } from './field-table.js';

export interface ViewOptions {
  /** Show bytes next to the fields. */
  readonly hex: boolean;
  /** Remarks on how the frame was read. */
  readonly notes?: readonly string[] | undefined;
}

/** Describes each kind of frame to readers who are new to the protocol. */
const KINDS: Readonly<Record<Explanation['kind'], readonly [name: string, meaning: string]>> = {
  control: ['control message', 'Opens, maintains or ends a session.'],
  link: ['link frame', 'Carries one step of a conversation within a session.'],
  'token-native': [
    'TokenNative',
    'Text as token IDs: numbers for pieces of text in a vocabulary that both ends have.',
  ],
  m2m: [
    'M2M v1 frame',
    'A JSON message after a header that routers can read without decompressing the message.',
  ],
  avp: ['AVP frame', 'A tensor, such as the hidden states of a model, after its description.'],
  'text-form': ['coded text', 'Text with a prefix that names its codec.'],
  content: ['plain text', 'Text without a prefix is the content itself.'],
  unknown: ['unknown', 'Frames never begin with this byte.'],
};

/** Prints an explanation for people: a summary, each field, and the verdict. */
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
  if (preview !== undefined && isCutInSummary(preview, summary)) showContent(terminal, preview, width);
  showVerdict(terminal, explanation, options, width);
}

/** Lines wider than this are hard to read. */
const MAX_WIDTH = 140;

/** Whether the summary quotes only a part of the preview. */
function isCutInSummary(preview: string, summary: string): boolean {
  return !summary.includes(`“${printable(preview)}”`);
}

/** Lines of content to show. */
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
  for (const name of missing) say('!', 'notice', `${name} is not installed, so its content is not decoded`);
  for (const { code, message, offset } of warnings)
    say('!', 'notice', `${code} at byte ${offset}: ${message}`);
  if (error === undefined && protection !== undefined) {
    say('✓', 'good', `the readable part is valid; verifying the rest requires the key (${protection})`);
  } else if (error === undefined) say('✓', 'good', 'the frame is valid');
  else say('✗', 'bad', `${error.code} at byte ${error.offset}: ${error.message}`);
}

/** An explanation for programs. It contains no bytes, which may hold credentials. */
export function explanationJson({ bytes: _, fields, ...explanation }: Explanation): object {
  return { ...explanation, fields: recordedFields(fields) };
}
