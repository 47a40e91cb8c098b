import {
  BodyCodec,
  CLOSE_CODES,
  DEFAULT_LIMITS,
  DEFAULT_TIMERS,
  LinkFlag,
  LinkKind,
} from '../../packages/protocol/src/index.js';
import { GATEWAY_ERRORS } from '../../packages/server/src/handlers/gateway/failure.js';
import { codecTables } from './codec-tables.js';
import { contextTable } from './context-table.js';
import { coreTable } from './core.js';
import { errorTable } from './error-table.js';
import { byte, table } from './markdown.js';
import { sessionTables } from './session-tables.js';

/** Tables and drawings, generated from the objects that the code uses. */
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
    ...sessionTables(),
    ...codecTables(),
    ['table context', contextTable()],
    ['table core', coreTable()],
  ]);
}
