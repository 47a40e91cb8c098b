import type { ClientSession } from '@parlance/client';
import {
  CLOSE_CODES,
  type DirectionStats,
  type Message,
  type Session,
  type SessionReset,
} from '@parlance/protocol';
import { type InspectionEvent, printable, SCHEMA_VERSION } from '@parlance/protocol/inspect';
import { describeFailure } from '../base/failure.js';
import type { Style, Terminal } from '../base/terminal.js';
import { count, wrap } from '../base/text-layout.js';
import { createScreen, type Screen } from './screen.js';
import { createTrafficView } from './traffic.js';

/** The output of `parlance connect`: text for people, or JSON lines for programs. */
export interface ConnectView {
  /** The screen above the prompt. */
  readonly screen: Screen;
  connecting(url: string): void;
  /** The address of the inspector, with its key. */
  inspector(url: string): void;
  /** The session has ended, and the inspector is still there. */
  inspectorStays(url: string): void;
  /** Something happened on the wire. */
  event(event: InspectionEvent): void;
  /** The client has noticed a change of the session. */
  state(state: string): void;
  /** The session is established: shows what was negotiated. */
  agreed(session: ClientSession): void;
  /** A part of a reply arrived. */
  part(text: string): void;
  /** A reply is complete. */
  reply(text: string, parts: number, milliseconds: number): void;
  /** A one-way message arrived. */
  message(message: Message): void;
  failure(error: unknown): void;
  notice(text: string): void;
  closed(session: Session): void;
}

export interface ConnectViewOptions {
  readonly quiet: boolean;
  readonly everyFrame: boolean;
}

/** Frames of a reply besides its text. */
const OF_REPLY: ReadonlySet<string> = new Set(['chunk', 'end', 'ack', 'credit']);

/** Writes replies to `output` and everything else to `errors`. */
export function createTextView(output: Terminal, errors: Terminal, options: ConnectViewOptions): ConnectView {
  const screen = createScreen(errors);
  const traffic = createTrafficView(screen, options);
  const { style } = errors;
  // On a terminal, output and errors may be the same: parts would mix with the lines of all frames.
  const streamsParts = !output.isInteractive || options.quiet || !options.everyFrame;
  /** The text of a reply is being shown. */
  let isReplying = false;
  /** Whether that text says what this frame has brought. */
  const isShown = ({ direction, label, preview, error }: InspectionEvent & { event: 'frame' }): boolean => {
    if (!output.isInteractive || options.everyFrame || error !== undefined) return false;
    isReplying ||= direction === 'received' && label === 'chunk' && preview !== undefined;
    return isReplying && OF_REPLY.has(label);
  };

  /** Whether `output` is in the middle of a line. */
  let isMidLine = false;
  const endLine = (isOpen = isMidLine) => {
    if (isOpen) output.write('\n');
    isMidLine = false;
  };

  const print = (line?: string) => {
    traffic.flush();
    if (output.isInteractive) endLine();
    screen.print(line);
  };
  const printWrapped = (text: string, as: Style, indent = '') => {
    for (const line of wrap(printable(text), Math.max(20, errors.columns - indent.length - 1))) {
      print(indent + style(as, line));
    }
  };
  /** Prints text from the server. */
  const printAnswer = (text: string) => {
    traffic.flush();
    endLine();
    for (const line of text.split('\n')) {
      const parts = output.isInteractive ? wrap(printable(line), output.columns) : [line];
      for (const part of parts) screen.print(output.style('strong', part), output);
    }
  };

  const printState = (text: string) =>
    printWrapped(`● ${text}`, 'notice', errors.columns < 60 ? '' : ' '.repeat(14));

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

    inspector: (url) => print(`${style('strong', 'Inspector')} ${style('value', url)}\n`),

    inspectorStays(url) {
      print(style('faint', 'The inspector stays until Ctrl-C:'));
      // The terminal wraps this line itself, so it recognizes the whole address.
      print(style('value', url));
    },

    event(event) {
      if (options.quiet) return;
      if (event.event === 'frame' && !isShown(event)) {
        if (output.isInteractive) endLine();
        traffic.frame(event.direction, event);
      }
      // The client itself reports why a connection could not be opened.
      if (event.event === 'connection' && event.what === 'closed')
        printState(
          `connection closed with ${describeClose(event.code ?? 1006)}${event.reason === undefined ? '' : ` (${event.reason})`}`,
        );
    },

    state(state) {
      if (!options.quiet) printState(STATES.get(state) ?? state);
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
      output.write(output.isInteractive ? text.split('\n').map(printable).join('\n') : text);
      isMidLine = true;
    },

    reply(text, parts, milliseconds) {
      if (streamsParts) endLine(true);
      else printAnswer(text);
      isReplying = false;
      if (!options.quiet && output.isInteractive)
        print(style('faint', `${count(parts, 'part')} in ${number(milliseconds)} ms`));
    },

    message: (message) => printAnswer(textOf(message)),
    failure(error) {
      endLine();
      printWrapped(`✗ ${describeFailure(error)}`, 'bad');
    },

    notice: (text) => printWrapped(text, 'faint'),

    closed(session) {
      if (options.quiet) return;
      const { sent, received } = session.stats();
      printWrapped(`sent ${count(sent.messages, 'message')}: ${costOf(sent)}`, 'faint');
      const parts = `${number(received.messages)} ${received.messages === 1 ? 'message or part' : 'messages and parts'}`;
      printWrapped(`received ${parts}: ${costOf(received)}`, 'faint');
    },
  };
}

/** Session states, for people. */
const STATES = new Map([
  ['established', 'connected again'],
  ['suspended', 'connection lost, reconnecting'],
  ['connecting', 'the previous session has ended, starting a new one'],
  ['closed', 'session closed'],
]);

function describeClose(code: number): string {
  const known = CLOSE_CODES.find((entry) => entry.code === code);
  // Leave out remarks in parentheses, which are for implementers.
  return known === undefined ? String(code) : `${code}: ${known.meaning.replace(/ \(.*\)$/, '')}`;
}

/** Writes one JSON object per line: a capture that an inspector opens, and what only this command knows. */
export function createJsonView(output: Terminal): ConnectView {
  const write = (event: object) => output.write(`${JSON.stringify(event)}\n`);
  const emit = (event: string, fields: object) =>
    write({ v: SCHEMA_VERSION, time: new Date().toISOString(), event, ...fields });
  return {
    screen: createScreen(output),
    connecting: (url) => emit('connecting', { url }),
    inspector: (url) => emit('inspector', { url }),
    inspectorStays: () => {},
    event: write,
    // The wire has shown it.
    state: () => {},
    agreed: ({ id, transport, negotiated }) => emit('agreed', { session: id, transport, negotiated }),
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

function agreement({ id, transport, negotiated }: ClientSession): [string, string][] {
  const { algorithms, encoding, extensions, limits } = negotiated;
  // Non-breaking spaces keep a limit and its name on one line.
  const limitTexts = Object.entries(limits).map(([name, value]) => `${name}\u00a0${number(value)}`);
  return [
    ['session', printable(id)],
    ['carried by', transport === 'http' ? 'HTTP requests' : 'a WebSocket'],
    ['algorithms', `${algorithms.join(', ')}; each message uses the one with the smallest result`],
    [
      'vocabulary',
      encoding === null ? 'none in common, so text is not sent as token IDs' : `${encoding}, for token IDs`,
    ],
    ['extensions', printable(Object.keys(extensions).join(', ')) || 'none'],
    ...(limitTexts.length > 0 ? ([['limits', limitTexts.join(', ')]] as [string, string][]) : []),
  ];
}

/** The text of a message, or a description of other content. */
export function textOf(message: Message): string {
  try {
    if (message.tensor !== undefined) {
      const { dtype, shape, byteLength } = message.tensor;
      return `[tensor: ${dtype} [${shape.join(', ')}], ${count(byteLength, 'byte')}]`;
    }
    return message.text;
  } catch {
    return `[${count(message.codedLength, 'byte')}, not text]`;
  }
}

export function describeReset({ reason, notSent, unknown }: SessionReset): string {
  return `session reset: ${reason}; not sent: ${notSent.length}, delivery unknown: ${unknown.length}`;
}

/** The cost of contents, without the cost of the session itself, which a longer session does not pay again. */
function costOf({ wireBytes, contentBytes, byAlgorithm }: DirectionStats): string {
  const coded = Object.values(byAlgorithm).reduce((sum, { codedBytes }) => sum + codedBytes, 0);
  const saved =
    contentBytes > coded ? `, ${Math.round((1 - coded / contentBytes) * 100)} % less than uncompressed` : '';
  const rest = count(Math.max(0, wireBytes - coded), 'byte');
  return `content ${number(contentBytes)} → ${count(coded, 'byte')}${saved}; handshake, frames and close ${rest}`;
}

function number(value: number): string {
  return value.toLocaleString('en-US');
}
