import {
  BodyCodec,
  CLOSE_CODES,
  DEFAULT_LIMITS,
  DEFAULT_TIMERS,
  ERROR_CODES,
  LinkFlag,
  LinkKind,
} from '../../packages/protocol/src/index.js';
import { sessionMachine } from '../../packages/protocol/src/session/lifecycle-machine.js';
import { GATEWAY_ERRORS } from '../../packages/server/src/gateway/failure.js';

/** Tables and the lifecycle drawing, generated from the objects that the code uses. */
export function buildTables(): ReadonlyMap<string, string> {
  return new Map([
    [
      'table close-codes',
      table(
        ['code', 'name', 'meaning', 'come back?'],
        CLOSE_CODES.map((c) => [String(c.code), `\`${c.name}\``, c.meaning, c.retryable ? 'yes' : 'no']),
      ),
    ],
    ['table error-codes', errorTable()],
    [
      'table limits',
      table(
        ['limit', 'default'],
        Object.entries(DEFAULT_LIMITS).map(([name, value]) => [`\`${name}\``, value.toLocaleString('en-US')]),
      ),
    ],
    [
      'table timers',
      table(
        ['timer', 'default, ms'],
        Object.entries(DEFAULT_TIMERS).map(([name, value]) => [`\`${name}\``, value.toLocaleString('en-US')]),
      ),
    ],
    [
      'table link-kinds',
      table(
        ['byte 0', 'kind'],
        Object.entries(LinkKind).map(([name, kind]) => [`\`${byte(0x10 | kind)}\``, name.toLowerCase()]),
      ),
    ],
    [
      'table link-codecs',
      table(
        ['low nibble', 'codec'],
        Object.entries(BodyCodec).map(([name, codec]) => [`\`${codec}\``, name]),
      ),
    ],
    [
      'table link-flags',
      table(
        ['bit', 'flag'],
        Object.entries(LinkFlag).map(([name, flag]) => [`\`${byte(flag)}\``, name]),
      ),
    ],
    [
      'table gateway-errors',
      table(
        ['code', 'status', 'meaning', 'again?'],
        Object.entries(GATEWAY_ERRORS).map(([code, { status, meaning, retryable }]) => [
          `\`${code}\``,
          String(status),
          meaning,
          retryable ? 'yes' : 'no',
        ]),
      ),
    ],
    ['drawing lifecycle', lifecycle()],
  ]);
}

function errorTable(): string {
  const byCloseCode = new Map<number, string[]>();
  for (const [code, entry] of Object.entries(ERROR_CODES)) {
    byCloseCode.set(entry.closeCode, [...(byCloseCode.get(entry.closeCode) ?? []), `\`${code}\``]);
  }
  const rows = [...byCloseCode]
    .sort(([a], [b]) => a - b)
    .map(([closeCode, codes]) => [
      closeCode === 1000 ? 'none: fails one call' : String(closeCode),
      codes.join(', '),
    ]);
  return table(['ends a session with', 'error codes'], rows);
}

interface StateConfig {
  readonly on?: Readonly<Record<string, unknown>>;
}

function lifecycle(): string {
  const lines = ['```mermaid', 'stateDiagram-v2', '  [*] --> initial'];
  const states = sessionMachine.config.states as Readonly<Record<string, StateConfig>>;
  for (const [state, { on = {} }] of Object.entries(states)) {
    const edges = new Map<string, string[]>();
    for (const [event, transition] of Object.entries(on)) {
      for (const { target, guard } of candidates(transition)) {
        if (target === undefined) continue;
        edges.set(target, [
          ...(edges.get(target) ?? []),
          guard === undefined ? event : `${event} [${guard}]`,
        ]);
      }
    }
    for (const [target, events] of edges) lines.push(`  ${state} --> ${target}: ${events.join(', ')}`);
  }
  lines.push('  closed --> [*]', '  failed --> [*]', '```');
  return lines.join('\n');
}

interface Candidate {
  readonly target?: string;
  readonly guard?: string;
}

function candidates(transition: unknown): Candidate[] {
  if (typeof transition === 'string') return [{ target: transition }];
  return (Array.isArray(transition) ? transition : [transition]) as Candidate[];
}

function byte(value: number): string {
  return `0x${value.toString(16).padStart(2, '0')}`;
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  return [head, head.map(() => '---'), ...rows].map((row) => `| ${row.join(' | ')} |`).join('\n');
}
