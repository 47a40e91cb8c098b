import { Centrifuge } from 'centrifuge';
import { server, show } from './shown.js';

const client = new Centrifuge(server);
const subscription = client.newSubscription('chat');
subscription.on('publication', ({ data }) => show(String(data)));
subscription.subscribe();
client.connect();
await subscription.publish('hello');
