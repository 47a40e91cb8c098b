import { Algorithm, EncodingName } from '@parlance/protocol';
import { type Command, Option } from 'commander';
import { type CommandEnvironment, type Finish, nameOf, shapeOf, wholeNumber } from '../base/command.js';
import { CommandFailure, ExitCode } from '../base/failure.js';
import type { Terminal } from '../base/terminal.js';
import type { Codec, EncodeCommandOptions } from './transcode.js';

/** `inspect`, `encode` and `decode`, which work on single frames. */

const CODECS: readonly Codec[] = [...Object.values(Algorithm), 'AVP'];
const ENCODINGS = Object.values(EncodingName);

interface InspectFlags {
  readonly hex?: boolean;
  readonly json?: boolean;
  readonly as: 'auto' | 'binary' | 'text' | 'hex';
  readonly encoding?: EncodingName;
  readonly preview: number;
}

export function addInspect(program: Command, { output }: CommandEnvironment, finish: Finish): void {
  program
    .command('inspect <frame>')
    .summary('explain a frame, byte by byte')
    .description(
      'Explains any WebSocket message byte by byte. <frame> is a file, - for standard input, or hex digits. Nothing is decrypted, and credentials are not shown.',
    )
    .option('-x, --hex', 'show the bytes of each field')
    .option('--json', 'print the explanation as JSON')
    .addOption(
      new Option('--as <form>', 'how to read the input')
        .choices(['auto', 'binary', 'text', 'hex'])
        .default('auto'),
    )
    .option(
      '-e, --encoding <name>',
      `vocabulary of token IDs in link frames, which do not name it: ${ENCODINGS.join(', ')} (default: guessed)`,
      nameOf(ENCODINGS),
    )
    .option('--preview <length>', 'most characters of content to show', wholeNumber(0, 1_000_000), 400)
    .addHelpText(
      'after',
      `
Examples:
  parlance inspect 100001b24d0bfd0e00
  parlance inspect --hex frame.bin
  echo '{"model":"gpt-4o","messages":[]}' |
    parlance encode -a M2M --binary | parlance inspect -`,
    )
    .action(async (frame: string, { hex = false, json = false, encoding, ...flags }: InspectFlags) => {
      const { inspect } = await import('./inspect.js');
      finish(await inspect(frame, { ...flags, hex, json, encoding }, output));
    });
}

type EncodeFlags = Omit<EncodeCommandOptions, 'model' | 'binary' | 'shape'> & {
  readonly model?: string;
  readonly binary?: boolean;
  readonly shape?: readonly number[];
};

export function addEncode(program: Command, { output }: CommandEnvironment, finish: Finish): void {
  program
    .command('encode [file]')
    .summary('encode a message')
    .description('Encodes a file or standard input, byte for byte, and writes the result to standard output.')
    .requiredOption('-a, --algorithm <name>', `one of ${CODECS.join(', ')}`, nameOf(CODECS))
    .option(
      '-e, --encoding <name>',
      `vocabulary of TOKEN_NATIVE: ${ENCODINGS.join(', ')}`,
      nameOf(ENCODINGS),
      'CL100K_BASE',
    )
    .option(
      '-m, --model <name>',
      'make the text a chat request for this model; for AVP, the model that produced the tensor',
    )
    .option('-b, --binary', 'write the binary form of M2M and TOKEN_NATIVE')
    .option(
      '--dtype <type>',
      'AVP: float32, float16, bfloat16 or int8',
      nameOf(['float32', 'float16', 'bfloat16', 'int8'], (name) => name.toLowerCase()),
      'float32',
    )
    .option('--shape <dimensions>', 'AVP: dimensions such as 32,4096 (default: none)', shapeOf)
    .option(
      '--payload-type <type>',
      'AVP: hidden_state or kv_cache',
      nameOf(['hidden_state', 'kv_cache'], (name) => name.toLowerCase()),
      'hidden_state',
    )
    .option(
      '--compression <level>',
      'AVP: none, fast, balanced or max',
      nameOf(['none', 'fast', 'balanced', 'max'], (name) => name.toLowerCase()),
      'none',
    )
    .addHelpText(
      'after',
      `
Examples:
  echo "Hello, world!" | parlance encode -a TOKEN_NATIVE
  parlance encode -a AVP --shape 4096 hidden.f32 > hidden.avp`,
    )
    .action(
      async (file: string | undefined, { model, binary = false, shape = [], ...flags }: EncodeFlags) => {
        const { encode } = await import('./transcode.js');
        writeCoded(output, await encode(file ?? '-', { ...flags, model, binary, shape }));
        finish(ExitCode.OK);
      },
    );
}

export function addDecode(program: Command, { output }: CommandEnvironment, finish: Finish): void {
  program
    .command('decode [file]')
    .summary('decode a message')
    .description(
      'Decodes the output of encode, from a file or standard input, and writes the content to standard output.',
    )
    .option(
      '-a, --algorithm <name>',
      'fail if the input has another codec (default: detected)',
      nameOf(CODECS),
    )
    .addHelpText(
      'after',
      `
Example:
  echo "Hello, world!" | parlance encode -a BROTLI | parlance decode`,
    )
    .action(async (file: string | undefined, { algorithm }: { readonly algorithm?: Codec }) => {
      const { decode } = await import('./transcode.js');
      const content = await decode(file ?? '-', algorithm);
      if (typeof content === 'string') output.write(content);
      else writeBytes(output, content);
      finish(ExitCode.OK);
    });
}

/** Text forms get a line break; bytes must not go to a terminal. */
function writeCoded(output: Terminal, coded: Uint8Array | string): void {
  if (typeof coded === 'string') output.write(`${coded}\n`);
  else writeBytes(output, coded);
}

function writeBytes(output: Terminal, bytes: Uint8Array): void {
  if (output.isInteractive) {
    throw new CommandFailure(
      'refusing to write binary data to a terminal; redirect it to a file or to parlance inspect -',
      ExitCode.USAGE,
    );
  }
  output.write(bytes);
}
