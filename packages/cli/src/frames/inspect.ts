import { existsSync } from 'node:fs';
import { Algorithm, EncodingName, isEncodingAvailable, loadCodecs, loadEncoding } from '@parlance/protocol';
import { type ExplainOptions, type Explanation, explainFrame } from '@parlance/protocol/inspect';
import { CommandFailure, ExitCode } from '../base/failure.js';
import { asFrame, bytesOfHex, readInput, textOf } from '../base/input.js';
import type { Terminal } from '../base/terminal.js';
import { explanationJson, showExplanation } from './explanation-view.js';

export interface InspectOptions {
  readonly hex: boolean;
  readonly json: boolean;
  readonly as: 'auto' | 'binary' | 'text' | 'hex';
  /** Vocabulary of token IDs in link frames. */
  readonly encoding: EncodingName | undefined;
  /** How much of the content to show, in UTF-16 units. */
  readonly preview: number;
}

/**
 * `parlance inspect`: explains one frame.
 *
 * @param source a file, `-` for standard input, or hex digits.
 * @returns `FAILURE` if the frame is damaged.
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
      if (decoded === undefined)
        throw new CommandFailure(`${source} does not contain an even number of hex digits`);
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

/** Whether the frame has token IDs whose vocabulary is unknown: link frames do not name it. */
function hasNamelessTokens({ kind, fields, sizes, error }: Explanation): boolean {
  const codec = fields.find(({ name }) => name === 'codec and flags')?.value;
  return (
    kind === 'link' &&
    error === undefined &&
    sizes.content === undefined &&
    String(codec).startsWith(Algorithm.TOKEN_NATIVE)
  );
}

/** Tries each vocabulary until the IDs are valid text, which is more useful than bare numbers. */
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
    const note = `token IDs decoded as ${encoding}, a guess: the frame does not name its vocabulary; use --encoding to choose`;
    return { explanation, notes: [note] };
  }
  return { explanation: unguessed, notes: [] };
}

function isEncodingName(name: string): name is EncodingName {
  return Object.hasOwn(EncodingName, name);
}
