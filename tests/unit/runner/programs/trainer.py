"""A Hugging Face Trainer on a model made here; prints as JSON what its reporter says in the middle and at the end."""

import json
import os

import torch
from scraping import page
from transformers import Trainer, TrainerCallback, TrainingArguments

SEEN = {}


class Tiny(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(50, 8)

    def forward(self, input_ids=None, labels=None):
        return {"loss": self.embed(input_ids).square().mean()}


class Data(torch.utils.data.Dataset):
    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index):
        return {"input_ids": torch.full((6,), index % 50), "labels": torch.zeros(6)}


class Look(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs) -> None:
        if state.global_step == 5:
            SEEN["middle"] = page()


def main() -> None:
    torch.set_num_threads(1)
    from transformers.integrations.integration_utils import KubeflowCallback

    KubeflowCallback._MIN_UPDATE_INTERVAL = 0.0
    arguments = TrainingArguments(
        output_dir=os.environ["GPUJOB_RUN_FOLDER"],
        per_device_train_batch_size=4,
        gradient_accumulation_steps=2,
        max_steps=10,
        logging_steps=1,
        eval_strategy="steps",
        eval_steps=3,
        save_strategy="no",
        disable_tqdm=True,
        use_cpu=True,
    )
    Trainer(Tiny(), arguments, train_dataset=Data(400), eval_dataset=Data(20), callbacks=[Look()]).train()
    SEEN["end"] = page()
    print(json.dumps(SEEN))


if __name__ == "__main__":
    main()
