import { connect } from '@parlance/client';
import { server, show } from './shown.js';

const session = await connect(server);
await session.send('hello');
for await (const message of session) show(message.text);
