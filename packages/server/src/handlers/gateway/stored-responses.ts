import { GatewayFailure } from './failure.js';
import type { GatewayBody } from './request-body.js';
import { elementsOf, type FoundKey, readText, type ScanResult, scanObject } from './scan.js';

/** Keys of an item of `input` by which it may refer to a stored one. */
const ITEM_FIELDS = ['type', 'id'] as const;

/**
 * Refuses references to earlier responses: the upstream stores all of them under one key and does not check which
 * principal they belong to.
 *
 * @throws {GatewayFailure} `bad_request`, also if parsers may differ on whether there is a reference.
 */
export function assertSelfContained(content: GatewayBody): void {
  const { found } = content.scanStrictly();
  for (const name of ['previous_response_id', 'conversation'] as const) {
    const value = memberOf(found, name);
    // null is the same as an absent key.
    if (value !== undefined && !isNull(value)) throw refused(name);
  }
  const input = memberOf(found, 'input');
  if (input === undefined) return;
  assertNoReference(input);
  for (const item of elementsOf(input)) assertNoReference(item);
}

/** @param item a JSON value, perhaps with blanks around it. */
function assertNoReference(item: Uint8Array): void {
  const { found, fault } = scanObject(item, ITEM_FIELDS);
  // A text or a list: the body has been scanned already.
  if (fault !== undefined) return;
  const type = memberOf(found, 'type');
  const stated = type === undefined || isNull(type) ? undefined : readText(type);
  if (stated?.toLowerCase() === 'item_reference') throw refused('item_reference');
  // The type of a reference may be left out.
  if (stated === undefined && memberOf(found, 'id') !== undefined)
    throw new GatewayFailure(
      'bad_request',
      'id: an item of "input" that has an ID must state its "type"; references to stored responses are not allowed',
    );
}

/** @throws {GatewayFailure} `bad_request` if readers may differ on which key counts. */
function memberOf<Name extends string>(
  found: ScanResult<Name>['found'],
  name: Name,
): FoundKey['value'] | undefined {
  const key = found.get(name);
  if (key === undefined) return undefined;
  if (key.count > 1) throw new GatewayFailure('bad_request', `the request states "${name}" more than once`);
  if (key.isExact) return key.value;
  throw new GatewayFailure(
    'bad_request',
    `the key "${name}" must be written in lower case, in ASCII and without escapes`,
  );
}

function refused(name: string): GatewayFailure {
  return new GatewayFailure('bad_request', `${name}: references to stored responses are not allowed`);
}

function isNull(value: Uint8Array): boolean {
  return value.length === 4 && value[0] === 0x6e;
}
