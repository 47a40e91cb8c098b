import { Extension } from '../../packages/protocol/src/base/constants.js';
import { STANDARD_PARAMETERS, STANDARD_VALUES } from '../../packages/protocol/src/control/standard.js';
import { CLOSING_STEPS } from '../../packages/protocol/src/session/closing.js';
import { LifecycleEvent, LifecycleState } from '../../packages/protocol/src/session/lifecycle.js';
import { sessionMachine, stepLifecycle } from '../../packages/protocol/src/session/lifecycle-machine.js';
import { code, fence, table } from './markdown.js';

/** Tables and drawings of states, and the extensions. */
export function sessionTables(): [string, string][] {
  return [
    ['drawing lifecycle', fence('mermaid', drawing())],
    ['table lifecycle', lifecycle()],
    [
      'table closing',
      table(
        ['state', 'begins to close', 'sends CLOSE', 'receives CLOSE', 'the connection is lost'],
        Object.entries(CLOSING_STEPS).map(([state, { begin, send, receive, lose }]) => [
          state,
          ...[begin, send, receive, lose].map((next) => next ?? ''),
        ]),
      ),
    ],
    [
      'table standard-parameters',
      table(
        ['extension', 'member', 'standard value'],
        Object.entries(STANDARD_PARAMETERS).flatMap(([extension, members]) =>
          Object.entries(members).map(([name, value]) => [code(extension), code(name), thousands(value)]),
        ),
      ),
    ],
    [
      'table standard-values',
      table(
        ['field', 'absent in HELLO', 'absent in ACCEPT'],
        [
          ['`version`', '–', code(STANDARD_VALUES.version)],
          ['`algorithms`', '–', 'those of HELLO'],
          ['`encoding`', '', code(STANDARD_VALUES.encoding)],
          ['`session_timeout_ms`', '', thousands(STANDARD_VALUES.sessionTimeoutMs)],
          [
            '`max_payload_size`',
            thousands(STANDARD_VALUES.maxPayloadSize),
            thousands(STANDARD_VALUES.maxPayloadSize),
          ],
          ['`limits`', '', code(JSON.stringify(STANDARD_VALUES.limits))],
          ['`resume.window_ms`', '', thousands(STANDARD_VALUES.windowMs)],
          ['`resume.recovered`', '', code(String(STANDARD_VALUES.recovered))],
          ['`resume.received`', '', thousands(STANDARD_VALUES.received)],
        ],
      ),
    ],
    [
      'table extensions',
      table(
        ['name', 'needs', 'value in HELLO', 'value in ACCEPT', 'see'],
        Object.values(Extension).map((name) => [code(name), ...EXTENSIONS[name]]),
      ),
    ],
  ];
}

const EXTENSIONS: Readonly<
  Record<Extension, readonly [needs: string, hello: string, accept: string, see: string]>
> = {
  link: ['`m2m.v1`', 'parameters', 'parameters', '[part 4](link.md)'],
  resume: ['`link`', '`{}`', '`{}`', '[part 6](resume.md)'],
  rebuild: ['`resume`', '`1`', '`1`', '[part 6](resume.md#a-rebuilt-link-extension-rebuild)'],
  move: ['`resume`', '`1`', '`1`', '[part 6](resume.md#moving-extension-move)'],
  durable: ['`resume`', '`1`', '`1`', '[part 6](resume.md#a-durable-session-extension-durable)'],
  context: ['`link`', 'parameters', 'parameters', '[part 9](context.md)'],
  agents: ['`link`', '`{"metadata"}`', '`{}`', '[part 11](agents.md)'],
  avp: ['`link`', 'introduction', 'introduction', '[part 10](tensors.md#models-extension-avp-needs-link)'],
  vocabularies: ['', 'hashes', 'hashes', '[part 2](control.md#hello-client--server)'],
  ready: ['`link`', 'list of codecs', '`[]`', '[part 2](control.md#ready-client--server-extension-ready)'],
  std: ['', '`1`', '`1`', '[part 2](control.md#standard-values-extension-std)'],
  replies: ['`link`', '`{}`', '`{}`', '[part 12](replies.md)'],
};

const thousands = (value: unknown): string => Number(value).toLocaleString('en-US');

/** The next state for every state and event, where `resume` makes a difference both. */
function lifecycle(): string {
  const events = Object.values(LifecycleEvent);
  const rows = Object.values(LifecycleState).map((state) => [
    `**${state}**`,
    ...events.map((event) => {
      const [client, server, plain] = (
        [
          ['client', true],
          ['server', true],
          ['server', false],
        ] as const
      ).map(([role, resumable]) => stepLifecycle(state, event, { role, resumable }).state);
      if (client !== server) return `${client} (client), ${server} (server)`;
      if (server === state && plain === state) return '·';
      return server === plain
        ? (server as string)
        : `${server === state ? '·' : server} with resume, else ${plain}`;
    }),
  ]);
  return `${table(['state', ...events.map(code)], rows)}\n\n"·" stands for no change.`;
}

interface StateConfig {
  readonly on?: Readonly<Record<string, unknown>>;
}

function drawing(): string {
  const lines = ['stateDiagram-v2', `  accDescr: ${DESCRIPTION}`, '  [*] --> initial'];
  const states = sessionMachine.config.states as Readonly<Record<string, StateConfig>>;
  for (const [state, { on = {} }] of Object.entries(states)) {
    const edges = new Map<string, string[]>();
    for (const [event, transition] of Object.entries(on)) {
      for (const { target, guard } of candidates(transition)) {
        // Each state can lead there, and the drawing would only show that.
        if (target === undefined || target === LifecycleState.FAILED) continue;
        const label = guard === undefined ? event : `${event} [${guard}]`;
        edges.set(target, [...(edges.get(target) ?? []), label]);
      }
    }
    for (const [target, events] of edges) lines.push(`  ${state} --> ${target}: ${events.join(', ')}`);
  }
  return [...lines, '  closed --> [*]'].join('\n');
}

/** For readers who see no drawing. */
const DESCRIPTION =
  'The states of a session, from initial over established to closed, and the events that lead from one to another. The table below has them all.';

interface Candidate {
  readonly target?: string;
  readonly guard?: string;
}

function candidates(transition: unknown): Candidate[] {
  if (typeof transition === 'string') return [{ target: transition }];
  return (Array.isArray(transition) ? transition : [transition]) as Candidate[];
}
