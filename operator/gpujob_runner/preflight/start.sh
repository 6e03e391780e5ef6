# Starts the preflight under a Python of the image: the one of the command (whose words are the arguments), the one beside it, the
# first on PATH. It runs isolated from the program's folder and variables, so that no module of the user's is taken for one of Python's.
case "${1##*/}" in python*) own=$1;; *) own=;; esac
case "$1" in */*) near=${1%/*}/python3;; *) near=;; esac
for python in "$own" "$near" python3 python; do
  if [ -n "$python" ] && "$python" -I -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null; then
    exec "$python" -I -B -c 'import sys; sys.path.insert(0, "/opt/gpujob"); from gpujob_runner.preflight.main import main; main()' "$@"
  fi
done
echo 'no Python 3.9 or newer in the image: nothing can be checked'
echo '{"gpujob":1,"findings":[{"reason":"NoInterpreter"}]}' >/dev/termination-log
exit 3
