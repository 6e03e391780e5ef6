# Your code on the ROCm image that the catalog runs on AMD GPUs; cuda.Dockerfile is its twin. Build both, name both in `images` of a GPUJob:
#   docker build -f images/examples/rocm.Dockerfile -t registry.example.com/team/train:rocm .
# The context is your project: requirements.txt and the code. BASE comes from `kubectl gpujob catalog runtimes`.
ARG BASE=rocm/pytorch:rocm7.14.1_ubuntu24.04_py3.12_pytorch_release_2.12.0
FROM ${BASE}

# torch, and what is built against it, stay those of the base: a torch from the default index would replace them, and be one for CUDA.
RUN python3 -m pip freeze | grep -iE '^(torch|torchvision|torchaudio|triton|pytorch-triton-rocm)(==| @)' > /etc/pip-constraints.txt
ENV PIP_CONSTRAINT=/etc/pip-constraints.txt PIP_NO_CACHE_DIR=1 PYTHONUNBUFFERED=1
COPY requirements.txt /tmp/requirements.txt
RUN python3 -m pip install --requirement /tmp/requirements.txt

COPY . /workspace
WORKDIR /workspace
# GPUJobs run as uid 1000 unless they say otherwise; the image has no files that only root reads.
RUN chmod -R a+rX /workspace
USER 1000
# The build ends here where the base's torch was replaced by one of another stack.
RUN python3 -c "import torch; assert torch.version.hip and not torch.version.cuda, torch.__version__"
