import type { Message, Session, SessionReset } from '@parlance/protocol';
import { type Direction, type Explanation, printable } from '@parlance/protocol/inspect';
import { explanationJson } from './explanation-json.js';
import { describeFailure } from './failure.js';
import { createScreen, type Screen } from './screen.js';
import type { Style, Terminal } from './terminal.js';
import { wrap } from './text-layout.js';
import { createTrafficView } from './traffic.js';

/** What `parlance connect` shows: to people, or to programs as a JSON object a line. */
export interface ConnectView {
  /** What lines are typed below, where somebody types. */
  readonly screen: Screen;
  connecting(url: string): void;
  frame(direction: Direction, explanation: Explanation): void;
  state(state: string, detail?: string): void;
  /** What the two ends agreed on. */
  agreed(session: Session): void;
  /** Part of a reply, as it arrives. */
  part(text: string): void;
  /** The reply is complete. */
  reply(text: string, parts: number, milliseconds: number): void;
  /** A one-way message. */
  message(message: Message): void;
  failure(error: unknown): void;
  notice(text: string): void;
  closed(session: Session): void;
}

export interface ConnectViewOptions {
  readonly quiet: boolean;
  readonly everyFrame: boolean;
}

/** Replies go to `output`, everything else to `screen`. */
export function createPeopleView(
  output: Terminal,
  errors: Terminal,
  options: ConnectViewOptions,
): ConnectView {
  const screen = createScreen(errors);
  const traffic = createTrafficView(screen, options);
  const { style } = errors;
  // What is written to one terminal by two streams would tear lines apart.
  const streamsParts = !output.isInteractive;

  /** Whether the last thing on `output` was part of a line. */
  let isMidLine = false;
  const endLine = () => {
    if (isMidLine) output.write('\n');
    isMidLine = false;
  };

  const print = (line?: string) => {
    traffic.settle();
    screen.print(line);
  };
  const say = (text: string, as: Style, indent = '') => {
    for (const line of wrap(printable(text), Math.max(20, errors.columns - indent.length - 1))) {
      print(indent + style(as, line));
    }
  };
  /** What the server says, whole lines of it. */
  const answer = (text: string) => {
    traffic.settle();
    endLine();
    for (const line of text.split('\n')) {
      const parts = output.isInteractive ? wrap(printable(line), output.columns) : [line];
      for (const part of parts) screen.print(output.style('strong', part), output);
    }
  };

  return {
    screen,

    connecting(url) {
      if (options.quiet) return;
      print(`${style('strong', 'parlance')} ${url}`);
      print(
        style(
          'faint',
          `${style('sent', '→')} sent   ${style('received', '←')} received   ${style('notice', '●')} the session`,
        ),
      );
      print();
    },

    frame(direction, explanation) {
      if (!options.quiet) traffic.frame(direction, explanation);
    },

    state(state, detail) {
      if (options.quiet) return;
      const said = STATES.get(state) ?? state;
      say(
        `● ${said}${detail === undefined ? '' : ` (${detail})`}`,
        'notice',
        errors.columns < 60 ? '' : ' '.repeat(14),
      );
    },

    agreed(session) {
      if (options.quiet) return;
      for (const [name, value] of agreement(session)) {
        const [first = '', ...more] = wrap(value, Math.max(20, errors.columns - 30));
        print(`${' '.repeat(16)}${style('faint', name.padEnd(12))} ${first}`);
        for (const line of more) print(`${' '.repeat(29)}${line}`);
      }
      print();
    },

    part(text) {
      if (!streamsParts) return;
      output.write(text);
      isMidLine = true;
    },

    reply(text, parts, milliseconds) {
      if (streamsParts) {
        isMidLine = true;
        endLine();
        return;
      }
      answer(text);
      if (!options.quiet) print(style('faint', `${count(parts, 'part')} in ${milliseconds} ms`));
    },

    message: (message) => answer(textOf(message)),
    failure(error) {
      endLine();
      say(`✗ ${describeFailure(error)}`, 'bad');
    },

    notice: (text) => say(text, 'faint'),

    closed(session) {
      if (options.quiet) return;
      const { sent, received } = session.stats();
      say(
        `sent ${count(sent.messages, 'message')} of ${count(sent.contentBytes, 'byte')}, ${number(sent.wireBytes)} on the wire`,
        'faint',
      );
      const parts = `${number(received.messages)} ${received.messages === 1 ? 'message or part' : 'messages and parts'}`;
      say(`received ${parts}, ${count(received.wireBytes, 'byte')} on the wire`, 'faint');
    },
  };
}

/** Names of states, for people. */
const STATES = new Map([
  ['established', 'the session goes on'],
  ['suspended', 'the connection is lost, the session waits for another one'],
  ['connecting', 'the server has ended the session, a new one begins by itself'],
  ['closed', 'the session is over'],
]);

/** One JSON object a line. */
export function createJsonView(output: Terminal): ConnectView {
  const emit = (event: string, fields: object) =>
    output.write(`${JSON.stringify({ event, time: new Date().toISOString(), ...fields })}\n`);
  return {
    screen: createScreen(output),
    connecting: (url) => emit('connecting', { url }),
    frame: (direction, explanation) => emit('frame', { direction, ...explanationJson(explanation) }),
    state: (state, detail) => emit('state', { state, detail }),
    agreed: (session) => emit('agreed', { session: session.id, negotiated: session.negotiated }),
    part: () => {},
    reply: (text, parts, milliseconds) => emit('reply', { text, parts, milliseconds }),
    message: (message) => emit('message', { text: textOf(message), algorithm: message.algorithm }),
    failure: (error) => {
      const { code, message } = error as { code?: unknown; message?: unknown };
      emit('error', { code, message: message ?? String(error) });
    },
    notice: () => {},
    closed: (session) => emit('closed', { stats: session.stats() }),
  };
}

function agreement({ id, negotiated }: Session): [string, string][] {
  const { algorithms, encoding, extensions, limits } = negotiated;
  // A limit and its name stay in one line.
  const stated = Object.entries(limits).map(([name, value]) => `${name}\u00a0${number(value)}`);
  return [
    ['session', printable(id)],
    ['algorithms', `${algorithms.join(', ')}: ways to code a message, the smallest is taken`],
    [
      'vocabulary',
      encoding === null
        ? 'none in common, so text does not travel as tokens'
        : `${encoding}: what token IDs mean`,
    ],
    ['extensions', printable(Object.keys(extensions).join(', ')) || 'none'],
    ...(stated.length > 0 ? ([['limits', stated.join(', ')]] as [string, string][]) : []),
  ];
}

/** What a message says, as far as it can be said. */
export function textOf(message: Message): string {
  try {
    if (message.tensor !== undefined) {
      const { dtype, shape, byteLength } = message.tensor;
      return `[a tensor: ${dtype} [${shape.join(', ')}], ${number(byteLength)} bytes]`;
    }
    return message.text;
  } catch {
    return `[${number(message.codedLength)} bytes that are no text]`;
  }
}

export function describeReset({ reason, notSent, unknown }: SessionReset): string {
  return `${reason}; ${notSent.length} messages were never sent, of ${unknown.length} nobody knows`;
}

function count(value: number, noun: string): string {
  return `${number(value)} ${noun}${value === 1 ? '' : 's'}`;
}

function number(value: number): string {
  return value.toLocaleString('en-US');
}
