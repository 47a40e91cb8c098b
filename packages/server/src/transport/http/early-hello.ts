import type { IncomingMessage } from 'node:http';
import { HELLO_OFFER, HELLO_READ, MAX_EARLY_HELLO } from '@parlance/protocol/internal';

/** HELLO in the upgrade request: a client offers it beside `m2m.v1`, as the name of one more subprotocol. */

const HEADER = 'sec-websocket-protocol';
/** Characters of base64url. */
const MAX_LENGTH = Math.ceil((MAX_EARLY_HELLO * 4) / 3);

/**
 * Takes HELLO out of a request. Nothing that is given the headers afterwards, such as `authenticate` or the log of an
 * application, gets the tokens in it.
 *
 * @returns the frame; `undefined` without one, with several, and for one that is malformed or too large.
 */
export function takeEarlyHello({ headers, rawHeaders }: IncomingMessage): Buffer | undefined {
  const header = headers[HEADER];
  if (header?.includes(HELLO_OFFER) !== true) return undefined;
  const names = namesIn(header);
  const offers = names.filter(isOffer);
  if (offers.length === 0) return undefined;
  const rest = withoutOffers(header);
  headers[HEADER] = rest;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] as string;
    if (name.length !== HEADER.length || name.toLowerCase() !== HEADER) continue;
    const value = rawHeaders[i + 1] as string;
    rawHeaders[i + 1] = value === header ? rest : withoutOffers(value);
  }
  const [offer] = offers;
  if (offer === undefined || offers.length > 1 || !names.includes(HELLO_READ)) return undefined;
  return decode(offer.slice(HELLO_OFFER.length));
}

const isOffer = (name: string): boolean => name.startsWith(HELLO_OFFER);

const namesIn = (header: string): string[] => header.split(',').map((name) => name.trim());

const withoutOffers = (header: string): string =>
  namesIn(header)
    .filter((name) => !isOffer(name))
    .join(', ');

/** Only the one spelling of the bytes is accepted. */
function decode(text: string): Buffer | undefined {
  if (text.length === 0 || text.length > MAX_LENGTH) return undefined;
  const bytes = Buffer.from(text, 'base64url');
  return bytes.toString('base64url') === text ? bytes : undefined;
}
