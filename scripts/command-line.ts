import { type ParseArgsConfig, parseArgs } from 'node:util';

/** The command lines of `npm run` scripts. */

/**
 * Reads the options of a script. `--help` shows its usage and ends the process; so does what is wrong, with
 * exit code 2 and one sentence about it.
 */
export function readCommandLine<const Config extends ParseArgsConfig>(
  usage: string,
  config: Config,
): ReturnType<typeof parseArgs<Config>> {
  if (process.argv.slice(2).some((arg) => arg === '--help' || arg === '-h')) {
    console.log(usage);
    process.exit(0);
  }
  try {
    return parseArgs(config);
  } catch (error) {
    const [sentence = ''] = (error as Error).message.split('. ', 1);
    return end(sentence.replace(/\.$/, ''), usage);
  }
}

/** @returns the whole number that an option states. */
export function wholeNumber(name: string, text: string, usage: string, least = 1): number {
  const value = Number(text);
  if (/^\d+$/.test(text) && Number.isSafeInteger(value) && value >= least) return value;
  return end(`--${name} is a whole number from ${least} on, not ${JSON.stringify(text)}`, usage);
}

function end(problem: string, usage: string): never {
  console.error(`${problem}\n\n${usage}`);
  process.exit(2);
}
