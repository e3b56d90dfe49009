# The program starts a Python with this text: -c TEXT PACKAGES MODULE ARGUMENTS…
# PACKAGES: the folder of the package that was built with the program, or nothing. The Python may be
# any, also one that is older than the package, so this text is kept to what all of them read.
import sys


def refuse(line):
    sys.stderr.write("slimpack: " + line + "\n")
    sys.exit(2)


def require_built(folder):
    """Refuses a package whose compiled module is missing, or was built for another Python."""
    import glob
    import os
    from importlib.machinery import EXTENSION_SUFFIXES
    modules = [os.path.basename(path) for path in glob.glob(os.path.join(glob.escape(folder), "_planner.*"))]
    modules = [name for name in modules if name.endswith(".so")]
    if not modules:
        refuse("the package in '%s' is not built; run 'make build'" % folder)
    if not any(name == "_planner" + suffix for name in modules for suffix in EXTENSION_SUFFIXES):
        tag = modules[0].split("-")[1] if "-" in modules[0] else "?"  # of _planner.cpython-311-…
        refuse("slimpack in '%s' was built for Python %s.%s, '%s' is Python %d.%d; set SLIMPACK_PYTHON to "
               "the Python that it was built for, or build it for this one"
               % (folder, tag[:1], tag[1:], sys.executable, sys.version_info[0], sys.version_info[1]))


def command(packages, module):
    """The command of the module, and what runs it."""
    import os
    if sys.path[0] == "":  # the working folder, whose files are none of this program's
        del sys.path[0]
    if packages:
        sys.path.insert(0, packages)
        require_built(os.path.join(packages, "slimpack"))
    import importlib.util
    found = importlib.util.find_spec("slimpack")
    if found is None or found.origin is None:
        refuse("'%s' has no package slimpack; run 'make build', or set SLIMPACK_PYTHON to a Python that "
               "has it" % sys.executable)
    require_built(os.path.dirname(found.origin))
    from slimpack.command_line import end
    return end, importlib.import_module(module).main


try:
    end, main = command(*sys.argv[1:3])
except ImportError as error:
    refuse("'%s' cannot run this command: %s; install what is missing, or set SLIMPACK_PYTHON to a Python "
           "that has it" % (sys.executable, str(error).split("\n")[0]))
except KeyboardInterrupt:
    sys.exit(130)
end(lambda: main(sys.argv[3:]))
