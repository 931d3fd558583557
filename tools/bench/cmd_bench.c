/*
 * cmd_bench.c: `steergraph bench steer SPEC...`: device time of a workload's apply, against the
 * copy floor.
 *
 * A benchmark reports; it never fails because of a time.
 */
#include <string.h>

#include "engine/hostmem.h"
#include "runtime/base/alloc.h"
#include "runtime/base/dtype.h"
#include "tools/bench/floor.h"
#include "tools/command.h"
#include "tools/job_table.h"
#include "tools/json_out.h"
#include "tools/options.h"
#include "tools/report.h"
#include "tools/table.h"
#include "tools/workload_job.h"

/* One measured line. */
struct row {
  const char *spec;
  const char *kernel; /* "tier0": every built-in op; "in-use": the workload's alone */
  struct stg_times time, floor;
  stg_plan_info plan;
  int64_t rows;
};

struct bench_options {
  const char *cache;
  bool allow_outside;
  bool json;
};

/* What one launch works on. */
struct steer_launch {
  stg_frame *frame;
  stg_apply apply;
};

static stg_status launch_steer(void *user, const struct stg_bench_buffers *buffers, size_t index,
                               stg_stream stream, stg_error *reterr) {
  struct steer_launch *launch = user;
  launch->apply.hidden = buffers->memory[index];
  launch->apply.residual = buffers->read_only[index];
  return stg_steer_apply(launch->frame, &launch->apply, stream, reterr);
}

static stg_status time_job(struct stg_job *job, struct stg_job_table *table,
                           const struct stg_bench_buffers *buffers, struct row *row,
                           stg_error *reterr) {
  const struct stg_workload *w = &job->workload;
  struct steer_launch launch = {
      .frame = table->frame,
      .apply = {.struct_size = sizeof launch.apply, .layer = w->layer, .row_stride = w->row_stride},
  };
  stg_status status =
      stg_bench_time(job->engine, buffers, launch_steer, &launch, &row->time, reterr);
  if (status == STG_OK) {
    status = stg_bench_floor(job->engine, buffers, &row->floor, reterr);
  }
  if (status == STG_OK) {
    row->plan = (stg_plan_info){.struct_size = sizeof row->plan};
    status = stg_frame_plan(table->frame, &row->plan, reterr);
  }
  row->rows = w->rows;
  return status;
}

/* The workload's tensors, as many times over as the timing rotates through. */
static stg_status with_tensors(struct stg_job *job, struct stg_job_table *table, struct row *row,
                               stg_error *reterr) {
  const struct stg_workload *w = &job->workload;
  const size_t bytes = (size_t)w->rows * (size_t)w->row_stride * stg_dtype_bytes(w->dtype);
  struct stg_bench_buffers buffers = {0};
  void *hidden = stg_calloc(bytes, 1);
  void *residual = w->pair ? stg_calloc(bytes, 1) : NULL;
  stg_status status = hidden != NULL && (residual != NULL || !w->pair)
                          ? STG_OK
                          : stg_error_memory(reterr, "the batch's rows", bytes);
  if (status == STG_OK) {
    status = stg_workload_fill(w, &w->hidden, hidden, reterr);
  }
  if (status == STG_OK && w->pair) {
    status = stg_workload_fill(w, &w->residual, residual, reterr);
  }
  if (status == STG_OK) {
    status = stg_bench_buffers_init(job->engine, bytes, hidden, residual, &buffers, reterr);
  }
  if (status == STG_OK) {
    status = time_job(job, table, &buffers, row, reterr);
  }
  stg_bench_buffers_finish(job->engine, &buffers);
  stg_free(hidden);
  stg_free(residual);
  return status;
}

static void print_row(const struct row *row, const stg_engine_info *engine, struct stg_table *table,
                      struct stg_json_out *json) {
  const double ratio = row->time.median_us / row->floor.median_us;
  stg_table_printf(table, "%s", row->spec);
  stg_table_printf(table, "%s", row->kernel);
  stg_table_printf(table, "%.2f us", row->time.median_us);
  stg_table_printf(table, "copy %.2f us", row->floor.median_us);
  stg_table_printf(table, "x %.2f", ratio);
  stg_table_printf(table, "tile %u", row->plan.tile_rows);
  stg_table_printf(table, "%u regs", row->plan.registers);
  stg_table_printf(table, "compile %.0f ms", row->plan.compile_ms);
  stg_json_out_open(json, NULL, '{');
  stg_json_out_text(json, "suite", "steer");
  stg_json_out_text(json, "name", row->spec);
  stg_json_out_text(json, "kernel", row->kernel);
  stg_json_out_text(json, "card", engine->device);
  stg_json_out_int(json, "driver", engine->driver_version);
  stg_json_out_int(json, "rows", row->rows);
  stg_json_out_number(json, "median_us", row->time.median_us);
  stg_json_out_number(json, "min_us", row->time.min_us);
  stg_json_out_number(json, "max_us", row->time.max_us);
  stg_json_out_number(json, "floor_us", row->floor.median_us);
  stg_json_out_number(json, "ratio", ratio);
  stg_json_out_int(json, "tile_rows", row->plan.tile_rows);
  stg_json_out_int(json, "registers", row->plan.registers);
  stg_json_out_int(json, "local_bytes", row->plan.local_bytes);
  stg_json_out_number(json, "compile_ms", row->plan.compile_ms);
  stg_json_out_text(json, "source", row->plan.source);
  stg_json_out_close(json, '}');
}

static stg_status bench_spec(const char *path, const struct bench_options *options, bool in_use,
                             struct stg_table *text, struct stg_json_out *json, stg_error *reterr) {
  const struct stg_job_options job_options = {.backend = STG_BACKEND_CUDA,
                                              .cache_path = options->cache,
                                              .allow_outside = options->allow_outside,
                                              .declare_used = in_use};
  struct stg_job job;
  stg_status status = stg_job_open(path, &job_options, &job, reterr);
  if (status != STG_OK) {
    return status;
  }
  struct stg_job_table table = {0};
  struct row row = {.spec = path, .kernel = in_use ? "in-use" : "tier0"};
  status = stg_job_table_init(&job, &table, reterr);
  if (status == STG_OK) {
    status = with_tensors(&job, &table, &row, reterr);
  }
  if (status == STG_OK) {
    stg_engine_info info = {.struct_size = sizeof info};
    stg_engine_get_info(job.engine, &info);
    print_row(&row, &info, text, json);
  }
  stg_job_table_finish(&job, &table);
  stg_job_close(&job);
  return status;
}

static int bench_steer(size_t n_specs, char **specs, const struct bench_options *options) {
  struct stg_table table = {.columns = "llrrrrrr"};
  struct stg_json_out json = {0};
  struct stg_strbuf text = {0};
  stg_error err = STG_ERROR_INIT;
  stg_status status = STG_OK;
  stg_json_out_open(&json, NULL, '[');
  for (size_t i = 0; status == STG_OK && i < 2 * n_specs; i++) {
    status = bench_spec(specs[i / 2], options, i % 2 != 0, &table, &json, &err);
  }
  stg_json_out_close(&json, ']');
  stg_table_print(&table, &text);
  int code = status != STG_OK ? stg_report_fail(&err)
                              : stg_report_print(options->json ? &json.text : &text);
  stg_strbuf_finish(&json.text);
  stg_strbuf_finish(&text);
  return code;
}

int stg_cmd_bench(int argc, char **argv) {
  struct bench_options options = {0};
  const struct stg_option table[] = {
      {"--json", NULL, "print one JSON array of rows", NULL, &options.json},
      {"--cache", "FOLDERS", "cache folders, RO:RO:RW", &options.cache, NULL},
      {"--allow-outside", NULL, "paths of a spec may leave its folder", NULL,
       &options.allow_outside},
  };
  const struct stg_grammar grammar = {
      .name = "bench",
      .words = "steer SPEC...",
      .summary = "time a workload's apply on a GPU, beside an in-place copy of the same bytes",
      .details =
          "Each SPEC is timed with the kernel of every built-in op (tier0) and with one of the "
          "ops in use\n(in-use), cold: a captured line of launches over buffers that exceed "
          "the L2.",
      .min_words = 1,
      .max_words = 64,
      .options = table,
      .n_options = sizeof table / sizeof table[0],
  };
  size_t words = 0;
  int code = 0;
  if (stg_options_parse(&grammar, argc, argv, &words, &code) != STG_PARSED_OK) {
    return code;
  }
  if (strcmp(argv[1], "steer") != 0) {
    return stg_report_wrong("bench", "unknown suite '%s'; there is steer", argv[1]);
  }
  if (words < 2) {
    return stg_report_wrong("bench", "SPEC... is missing");
  }
  return bench_steer(words - 1, argv + 2, &options);
}
