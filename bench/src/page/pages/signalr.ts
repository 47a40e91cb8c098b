import { HubConnectionBuilder } from '@microsoft/signalr';
import { server, show } from './shown.js';

const connection = new HubConnectionBuilder().withUrl(server).withAutomaticReconnect().build();
connection.on('message', show);
await connection.start();
await connection.send('message', 'hello');
