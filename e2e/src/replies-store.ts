import type { RepliesOptions } from '@parlance/server';

/** Where the replies of the tests are kept, which some test files replace. */
export const store: RepliesOptions['store'] = 'memory';
