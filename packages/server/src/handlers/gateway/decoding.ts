import { pipeline, Readable, type Transform } from 'node:stream';
import * as zlib from 'node:zlib';
import { GatewayFailure } from './failure.js';

/** Bodies of an upstream that codes them although it was asked not to. */

type Decode = (source: Readable) => Readable;

const { constants } = zlib;
// Received bytes are handed out at once, and a missing end is no error, as with the `fetch` of Node.
const LENIENT = { flush: constants.Z_SYNC_FLUSH, finishFlush: constants.Z_SYNC_FLUSH };
const BROTLI = { flush: constants.BROTLI_OPERATION_FLUSH, finishFlush: constants.BROTLI_OPERATION_FLUSH };

/** From Node 22.15. */
const { createZstdDecompress } = zlib as { readonly createZstdDecompress?: () => Transform };

const through =
  (create: () => Transform): Decode =>
  (source) =>
    pipeline(source, create(), () => {});
const gunzip = through(() => zlib.createGunzip(LENIENT));

const DECODERS: ReadonlyMap<string, Decode> = new Map<string, Decode>([
  ['br', through(() => zlib.createBrotliDecompress(BROTLI))],
  ['deflate', (source) => Readable.from(inflate(source), { objectMode: false })],
  ['gzip', gunzip],
  ['x-gzip', gunzip],
  ...(createZstdDecompress === undefined ? [] : [['zstd', through(createZstdDecompress)] as const]),
]);

/** Codings of one body. */
const MAX_CODINGS = 5;
/** In the low bits of the first byte, if there is a head. */
const DEFLATE = 8;

/** Some servers leave out the head of what they deflate. */
async function* inflate(source: Readable): AsyncGenerator<Buffer> {
  const chunks: AsyncIterator<Buffer> = source[Symbol.asyncIterator]();
  const { value: first, done } = await chunks.next();
  if (done === true) return;
  const hasHead = ((first[0] ?? 0) & 0x0f) === DEFLATE;
  const decoder = hasHead ? zlib.createInflate(LENIENT) : zlib.createInflateRaw(LENIENT);
  async function* whole(): AsyncGenerator<Buffer> {
    yield first;
    yield* { [Symbol.asyncIterator]: () => chunks };
  }
  yield* pipeline(Readable.from(whole(), { objectMode: false }), decoder, () => {});
}

/**
 * The body without its codings, the last of which is undone first.
 *
 * @param codings the header `content-encoding`.
 * @throws {GatewayFailure} `upstream_unusable` for an unknown coding; reading throws it as well.
 */
export function decoded(body: Readable, codings = ''): AsyncIterator<Uint8Array> {
  const names = codings
    .split(',')
    .map((name) => name.trim().toLowerCase())
    .filter((name) => name !== '' && name !== 'identity');
  if (names.length === 0) return body[Symbol.asyncIterator]();
  const unknown = names.length > MAX_CODINGS ? names.join(', ') : names.find((name) => !DECODERS.has(name));
  if (unknown !== undefined) {
    const shown = JSON.stringify(unknown.slice(0, 60));
    throw new GatewayFailure(
      'upstream_unusable',
      `the upstream coded its body as ${shown}, which cannot be decoded here`,
    );
  }
  const decodedBody = names.reduceRight((source, name) => (DECODERS.get(name) as Decode)(source), body);
  return explained(decodedBody, names.join(', '));
}

/** Codes of the errors of zlib, Brotli and zstd. */
const OF_CODING = /^(?:Z_|ERR__|ERR_BROTLI|ZSTD_)/;

async function* explained(body: Readable, codings: string): AsyncGenerator<Uint8Array> {
  try {
    yield* body;
  } catch (cause) {
    if (!OF_CODING.test(String((cause as { code?: unknown } | undefined)?.code))) throw cause;
    throw new GatewayFailure('upstream_unusable', `the upstream sent a body that is not "${codings}"`, {
      cause,
    });
  }
}
