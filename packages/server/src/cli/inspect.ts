import { existsSync } from 'node:fs';
import { Algorithm, EncodingName, isEncodingAvailable, loadCodecs, loadEncoding } from '@parlance/protocol';
import { type ExplainOptions, type Explanation, explainFrame } from '@parlance/protocol/inspect';
import { explanationJson } from './explanation-json.js';
import { showExplanation } from './explanation-view.js';
import { CommandFailure, ExitCode } from './failure.js';
import { asFrame, bytesOfHex, readInput, textOf } from './input.js';
import type { Terminal } from './terminal.js';

/** `parlance inspect`: explains one frame. */

export interface InspectOptions {
  readonly hex: boolean;
  readonly json: boolean;
  readonly as: 'auto' | 'binary' | 'text' | 'hex';
  /** Vocabulary of token IDs in link frames. */
  readonly encoding: EncodingName | undefined;
  /** UTF-16 units of content to show. */
  readonly preview: number;
}

/**
 * @param source a file, `-` for standard input, or hex digits.
 * @returns whether the frame is in order.
 */
export async function inspect(
  source: string,
  options: InspectOptions,
  terminal: Terminal,
): Promise<ExitCode> {
  const frame = await readFrame(source, options.as);
  const { explanation, notes } = await explain(frame, options);
  if (options.json) terminal.write(`${JSON.stringify(explanationJson(explanation), null, 2)}\n`);
  else showExplanation(terminal, explanation, { hex: options.hex, notes });
  return explanation.error === undefined ? ExitCode.OK : ExitCode.FAILURE;
}

async function readFrame(source: string, as: InspectOptions['as']): Promise<Uint8Array | string> {
  if (source !== '-' && !existsSync(source)) {
    const digits = bytesOfHex(source);
    if (digits !== undefined) return digits;
    throw new CommandFailure(`"${source}" is neither a file nor an even number of hex digits`);
  }
  const bytes = await readInput(source);
  switch (as) {
    case 'binary':
      return bytes;
    case 'auto':
      return asFrame(bytes);
    default: {
      const text = textOf(bytes);
      if (text === undefined)
        throw new CommandFailure(`${source} is not UTF-8, so it is neither text nor hex digits`);
      if (as === 'text') return text.replace(/\r?\n$/, '');
      const decoded = bytesOfHex(text);
      if (decoded === undefined) throw new CommandFailure(`${source} holds something else than hex digits`);
      return decoded;
    }
  }
}

interface Explained {
  readonly explanation: Explanation;
  readonly notes: readonly string[];
}

async function explain(
  frame: Uint8Array | string,
  { encoding, preview }: InspectOptions,
): Promise<Explained> {
  await loadCodecs(['M2M', 'BROTLI', 'AVP']);
  if (encoding !== undefined) await loadEncoding(encoding);
  const options: ExplainOptions = { preview, encoding };
  let explanation = explainFrame(frame, options);
  for (const name of explanation.missing) {
    if (isEncodingName(name) && (await isEncodingAvailable(name))) {
      await loadEncoding(name);
      explanation = explainFrame(frame, options);
    }
  }
  if (encoding !== undefined || !hasNamelessTokens(explanation)) return { explanation, notes: [] };
  return await guessEncoding(frame, options, explanation);
}

/** A link frame does not say which vocabulary its token IDs are of. */
function hasNamelessTokens({ kind, fields, sizes, error }: Explanation): boolean {
  const codec = fields.find(({ name }) => name === 'codec and flags')?.value;
  return (
    kind === 'link' &&
    error === undefined &&
    sizes.content === undefined &&
    String(codec).startsWith(Algorithm.TOKEN_NATIVE)
  );
}

/** The first vocabulary in which the IDs are text, which is worth more than bare numbers. */
async function guessEncoding(
  frame: Uint8Array | string,
  options: ExplainOptions,
  unguessed: Explanation,
): Promise<Explained> {
  for (const encoding of Object.values(EncodingName)) {
    if (!(await isEncodingAvailable(encoding))) continue;
    await loadEncoding(encoding);
    const explanation = explainFrame(frame, { ...options, encoding });
    if (explanation.error !== undefined || explanation.sizes.content === undefined) continue;
    const note = `the token IDs are read as ${encoding}, which the frame does not say; --encoding chooses another`;
    return { explanation, notes: [note] };
  }
  return { explanation: unguessed, notes: [] };
}

function isEncodingName(name: string): name is EncodingName {
  return Object.hasOwn(EncodingName, name);
}
