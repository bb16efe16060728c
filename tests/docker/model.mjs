// A stand-in for the messages API of a model: it does what the instructions say and nothing else. Lines that begin
// with `$ ` are commands for the Bash tool, `@ NAME JSON` calls of other tools, in order; what follows `Say: ` is its
// last word. Every request is kept.
import { appendFileSync } from 'node:fs';
import { createServer } from 'node:http';

const words = (content) => (Array.isArray(content) ? content : [{ type: 'text', text: content }]);

function next(request) {
  const parts = request.messages.flatMap((message) => words(message.content));
  const text = parts.flatMap((part) => (part.type === 'text' ? [part.text] : [])).join('\n');
  const bash = (command) => ({ name: 'Bash', input: { command, description: 'a step' } });
  const lines = [...text.matchAll(/^(?:\$ (.*)|@ (\S+) (.*))$/gm)];
  const calls = lines.map((line) => (line[1] ? bash(line[1]) : { name: line[2], input: JSON.parse(line[3]) }));
  const at = parts.filter((part) => part.type === 'tool_result').length;
  const call = calls[at];
  const said = text.match(/^Say: (.*)$/m)?.[1] ?? 'Nothing to say.';
  return call === undefined
    ? { stop: 'end_turn', block: { type: 'text', text: '' }, delta: { type: 'text_delta', text: said } }
    : {
        stop: 'tool_use',
        block: { type: 'tool_use', id: `toolu_${at}_${parts.length}`, name: call.name, input: {} },
        delta: { type: 'input_json_delta', partial_json: JSON.stringify(call.input) },
      };
}

function answer(request, response) {
  const { stop, block, delta } = next(request);
  const usage = { input_tokens: 1, output_tokens: 1 };
  const message = { id: 'msg_1', type: 'message', role: 'assistant', model: request.model, content: [], usage };
  const events = [
    { type: 'message_start', message: { ...message, stop_reason: null, stop_sequence: null } },
    { type: 'content_block_start', index: 0, content_block: block },
    { type: 'content_block_delta', index: 0, delta },
    { type: 'content_block_stop', index: 0 },
    { type: 'message_delta', delta: { stop_reason: stop, stop_sequence: null }, usage: { output_tokens: 1 } },
    { type: 'message_stop' },
  ];
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  response.end(events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join(''));
}

createServer((request, response) => {
  let text = '';
  request.on('data', (piece) => (text += piece));
  request.on('end', () => {
    const { method, url, headers } = request;
    const body = text ? JSON.parse(text) : null;
    appendFileSync('/workspace/requests.jsonl', `${JSON.stringify({ method, url, headers, body })}\n`);
    if (method === 'POST' && url.startsWith('/v1/messages') && body.stream) return answer(body, response);
    response.writeHead(404, { 'content-type': 'application/json' });
    response.end('{"type":"error","error":{"type":"not_found_error","message":"not found"}}');
  });
}).listen(8099, '127.0.0.1', () => console.log('the model listens'));
