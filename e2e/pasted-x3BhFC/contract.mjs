// contract.mjs
import { connect } from '@parlance/client';
import { contractClient, defineContract } from '@parlance/client/contract';
import { createServer } from '@parlance/server';
import { serve } from '@parlance/server/contract';
import WebSocket from 'ws';
import { z } from 'zod';

const contract = defineContract({
  sum: { input: z.object({ a: z.number(), b: z.number() }), output: z.number() },
  count: { input: z.number(), parts: z.number() },
});

const server = createServer({
  onRequest: serve(contract, {
    sum: ({ a, b }) => a + b,
    async *count(to) {
      for (let i = 1; i <= to; i++) yield i;
    },
  }),
});
const { url } = await server.listen();

const session = await connect(url, { WebSocket });
const { call, stream } = contractClient(contract, session);
console.log('the sum is', await call.sum({ a: 2, b: 3 }));
for await (const i of stream.count(3)) console.log('counted', i);
await call.sum({ a: 2, b: 'three' }).catch((error) => console.log(error.message));
await server.close();
