import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { App, type Outcome } from './app.js';
import { pageSize } from './page-size.js';
import { clientOf, type Rival } from './rivals.js';

/** What happens to each app. */

const QUESTION = 'Why is the sky blue?';
/** How many words a page shows when something happens. */
const MIDDLE = 80;

export interface Figures {
  readonly rival: Rival;
  /** Without comments and empty lines. */
  readonly lines: number;
  /** On the wire for one answer and for ten, in both directions, connecting included. */
  readonly bytes: readonly [one: number, ten: number];
  /** Of the client in gzip. */
  readonly page: number;
  readonly cut: string;
  readonly reload: string;
  readonly kill: string;
  readonly stop: string;
}

type WordsFor = (question: string) => readonly string[];

export class Measurement {
  readonly #apps: string;
  readonly #wordsFor: WordsFor;
  readonly #centrifugo: string | undefined;

  private constructor(apps: string, wordsFor: WordsFor, centrifugo: string | undefined) {
    this.#apps = apps;
    this.#wordsFor = wordsFor;
    this.#centrifugo = centrifugo;
  }

  /**
   * @param apps the folder of the apps, with their packages in it or above.
   * @param centrifugo the program.
   */
  static async create(apps: string, centrifugo: string | undefined): Promise<Measurement> {
    const { wordsFor } = await import(pathToFileURL(join(apps, 'model.mjs')).href);
    return new Measurement(apps, wordsFor, centrifugo);
  }

  async of(rival: Rival): Promise<Figures> {
    const bytes = [await this.#bytes(rival, 1), await this.#bytes(rival, 10)] as const;
    const after = async (event: (app: App) => void | Promise<void>) =>
      this.#describe(rival, await this.#after(rival, event));
    const cut = await after((app) => app.cut());
    const reload = await after((app) => app.reload());
    const killed = await after((app) => app.killServer());
    const { asked, stopped } = await this.#after(rival, (app) => app.stop());
    const broker = rival.needs === 'centrifugo' ? await after((app) => app.killBroker()) : undefined;
    return {
      rival,
      lines: rival.files.reduce((sum, file) => sum + linesOf(join(this.#apps, rival.folder, file)), 0),
      bytes,
      page: await pageSize(join(this.#apps, rival.folder, clientOf(rival))),
      cut,
      reload,
      kill: broker === undefined ? killed : `${killed}; of Centrifugo itself: ${broker}`,
      stop: asked === 1 && stopped === 1 ? 'yes' : 'no',
    };
  }

  async #bytes(rival: Rival, answers: number): Promise<number> {
    await using app = await App.start(this.#apps, rival, this.#centrifugo);
    await app.openPage();
    const expected: string[] = [];
    for (let number = 1; number <= answers; number++) {
      const question = `${QUESTION} (${number})`;
      expected.push(...this.#wordsFor(question));
      app.ask(question);
      const { words, outcome, text } = await app.end(0);
      if (outcome !== 'whole' || words.join() !== expected.join())
        throw new Error(`${rival.name}: answer ${number} has ${words.length} words, ${outcome} ${text}`);
    }
    return app.bytes;
  }

  async #after(rival: Rival, event: (app: App) => void | Promise<void>): Promise<Outcome> {
    await using app = await App.start(this.#apps, rival, this.#centrifugo);
    await app.openPage();
    app.ask(QUESTION);
    await app.shows(MIDDLE);
    await event(app);
    return await app.end();
  }

  /** How much the page shows, how much of it twice, how the answer ended, and what became of the model. */
  #describe(rival: Rival, { words, outcome, asked, stopped }: Outcome): string {
    const expected = this.#wordsFor(QUESTION);
    const shown = new Set(words);
    const twice = words.length - shown.size;
    const inOrder = expected.filter((word) => shown.has(word));
    if (twice === 0 && inOrder.join() !== words.join())
      throw new Error(`${rival.name} shows other words, or in another order: ${words.join(' ')}`);
    return [
      shown.size === expected.length ? 'all' : shown.size === 0 ? 'nothing' : 'a part',
      ...(twice > 0 ? ['some of it twice'] : []),
      ...(outcome === 'error' ? ['an error'] : []),
      ...(outcome === 'waits' ? ['no end'] : []),
      ...(asked > 1 ? ['the model is asked again'] : []),
      ...(stopped > 0 ? ['the model stops'] : []),
    ].join(', ');
  }
}

function linesOf(file: string): number {
  const lines = readFileSync(file, 'utf8').split('\n');
  return lines.filter((line) => !/^\s*(?:\/\/.*|\/\*\*.*\*\/)?$/.test(line)).length;
}
