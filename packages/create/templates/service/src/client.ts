import { connect } from '@parlance/client';
import { contractClient } from '@parlance/client/contract';
import { contract } from './contract.js';

const { URL: url = 'ws://127.0.0.1:8765', TOKEN: token } = process.env;
const session = await connect(url, { token, waitForServer: true });
const { call, stream } = contractClient(contract, session);

console.log(await call.count('how many words are these?'));
// Stop the server and start it again meanwhile, or cut the network for a moment.
for await (const line of stream.repeat({ text: 'still here', times: 10 })) console.log(line);
await session.close();
