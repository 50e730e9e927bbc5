"""Files of records: JSON lines that survive a killed writer, and Parquet tables.

`RecordWriter` appends episodes to a file, one a line; `read_records` reads them again. `write_parquet` and
`read_parquet` keep the same episodes as a table, one row a turn. What is read is what was written, or an error that
names the file and the line.
"""

from .parquet import read_parquet, write_parquet
from .reader import RecordReader, read_records
from .writer import RecordWriter

__all__ = ["RecordReader", "RecordWriter", "read_parquet", "read_records", "write_parquet"]
