import { defineContract } from '@parlance/client/contract';
import { z } from 'zod';

/** The calls that the server answers. Both ends import it. */
export const contract = defineContract({
  count: { input: z.string(), output: z.object({ words: z.number() }) },
  repeat: { input: z.object({ text: z.string(), times: z.int().min(1).max(1_000) }), parts: z.string() },
});
