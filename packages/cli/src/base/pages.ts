import { fileURLToPath } from 'node:url';

/** The folder of the built pages, the chat page and the inspector, for `createUserInterface` of `@parlance/server/ui`. */
export const PAGES: string = fileURLToPath(new URL('../../dist/ui', import.meta.url));
