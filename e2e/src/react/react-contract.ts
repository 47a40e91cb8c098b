import { defineContract } from '@parlance/client/contract';
import { z } from 'zod';

/** Of the page that tests the hooks, and its server. */
export const COUNTING = defineContract({ count: { input: z.number(), parts: z.number() } });
