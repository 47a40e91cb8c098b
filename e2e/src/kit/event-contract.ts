import { defineContract, type EventsOf } from '@parlance/client/contract';
import { z } from 'zod';

/** The events of all tests end to end: an application has one declaration of them. */

export const eventContract = defineContract(
  {},
  {
    events: {
      saved: { data: z.object({ id: z.number() }) },
      typing: { data: z.object({ who: z.string().trim() }) },
      counted: { data: z.number() },
      held: { data: z.string() },
      ping: {},
      never: {},
    },
  },
);

declare module '@parlance/client/contract' {
  interface EmittedEvents extends EventsOf<typeof eventContract> {}
}
