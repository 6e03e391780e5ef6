# Your code on the CUDA image that the catalog runs on NVIDIA GPUs; rocm.Dockerfile is its twin. Build both, name both in `images` of a GPUJob:
#   docker build -f images/examples/cuda.Dockerfile -t registry.example.com/team/train:cuda .
# The context is your project: requirements.txt and the code. BASE comes from `kubectl gpujob catalog runtimes`.
ARG BASE=pytorch/pytorch:2.14.1-cuda13.0-cudnn9-runtime
FROM ${BASE}

# torch, and what is built against it, stay those of the base: a torch from the default index would replace them, and be of another CUDA.
RUN python3 -m pip freeze | grep -iE '^(torch|torchvision|torchaudio|triton)(==| @)' > /etc/pip-constraints.txt
ENV PIP_CONSTRAINT=/etc/pip-constraints.txt PIP_NO_CACHE_DIR=1 PYTHONUNBUFFERED=1
COPY requirements.txt /tmp/requirements.txt
RUN python3 -m pip install --requirement /tmp/requirements.txt

COPY . /workspace
WORKDIR /workspace
# GPUJobs run as uid 1000 unless they say otherwise; the image has no files that only root reads.
RUN chmod -R a+rX /workspace
USER 1000
# The build ends here where the base's torch was replaced by one of another stack.
RUN python3 -c "import torch; assert torch.version.cuda and not torch.version.hip, torch.__version__"
