// greedy.mjs MODEL: node-llama-cpp as it comes, one thread, no GPU. Generates 50 tokens greedily after
// each prompt of the model's known answers and prints them, a line a prompt.
import fs from "node:fs";
import path from "node:path";
import {getLlama} from "node-llama-cpp";

const model_path = path.resolve(process.argv[2]);
const answers = JSON.parse(fs.readFileSync(
  path.join(path.dirname(model_path), "known-answers.json"))).answers;
const llama = await getLlama({gpu: false, build: "never", maxThreads: 1, progressLogs: false});
const model = await llama.loadModel({modelPath: model_path, gpuLayers: 0});
for (const {prompt_ids} of answers) {
  const context = await model.createContext({contextSize: 512, threads: 1});
  const ids = [];
  for await (const token of context.getSequence().evaluate(prompt_ids, {temperature: 0})) {
    ids.push(token);
    if (ids.length === 50) break;
  }
  console.log(ids.join(" "));
  await context.dispose();
}
process.exit(0);
